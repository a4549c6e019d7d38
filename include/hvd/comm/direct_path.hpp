// DirectPath: how a collective moves its data when all ranks are on one node.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include <hvd/algorithm/direct_copy.hpp>
#include <hvd/algorithm/direct_run.hpp>
#include <hvd/comm/context.hpp>

namespace hvd::detail {

/// Made with the call, since calls move their data in the order in which they are made. Does nothing on several nodes.
template <Transport T>
class DirectPath {
public:
    explicit DirectPath(const std::shared_ptr<Context<T>>& context)
        : state_{context->direct}, turn_{context, state_ != nullptr} {}

    explicit operator bool() const { return state_ != nullptr; }

    std::unique_ptr<Operation> copy(DirectExchange exchange) {
        return std::make_unique<InTurn<DirectCopy>>(turn_, *state_, std::move(exchange));
    }
    std::unique_ptr<Operation> run(DirectJob job) {
        return std::make_unique<InTurn<DirectRun>>(turn_, *state_, std::move(job));
    }

private:
    template <class X>
    class InTurn final : public Operation {
    public:
        template <class Work>
        InTurn(Turn<T>& turn, DirectState& state, Work work) : turn_{turn}, run_{state, std::move(work)} {}
        bool advance() override { return turn_.has_come() && run_.advance(); }
        int waiting_for() const override { return run_.waiting_for(); }

    private:
        Turn<T>& turn_;
        X run_;
    };

    std::shared_ptr<DirectState> state_;
    Turn<T> turn_;
};

}  // namespace hvd::detail
