// Operation: something that goes on step by step and never blocks, so that one thread can take many further.
#pragma once

#include <memory>

namespace hvd::detail {

class Operation {
public:
    virtual ~Operation() = default;
    /// Does what can be done now. Returns true when all is done (and is not called again); throws when it has failed.
    virtual bool advance() = 0;
    /// The rank whose message is missing, or -1.
    virtual int waiting_for() const { return -1; }
};

/// Stages one after another. `begin(i)` does what stage i does at once and returns the rest of it, or nothing.
class StagedOperation : public Operation {
public:
    explicit StagedOperation(int stages) : stages_{stages} {}

    bool advance() final {
        for (; stage_ < stages_; ++stage_, begun_ = false) {
            if (!begun_) {
                current_ = begin(stage_);
                begun_ = true;
            }
            if (current_ && !current_->advance()) return false;
            current_.reset();
        }
        return true;
    }
    int waiting_for() const final { return current_ ? current_->waiting_for() : -1; }

protected:
    virtual std::unique_ptr<Operation> begin(int stage) = 0;

private:
    int stages_, stage_ = 0;
    bool begun_ = false;
    std::unique_ptr<Operation> current_;
};

}  // namespace hvd::detail
