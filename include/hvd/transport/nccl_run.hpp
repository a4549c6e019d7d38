// NcclRun: NCCL calls as an operation that never blocks, connected first where nobody has. Needs NCCL.
#pragma once

#ifdef HVD_WITH_NCCL

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <hvd/transport/channel.hpp>
#include <hvd/transport/nccl_group.hpp>
#include <hvd/transport/operation.hpp>

namespace hvd::detail {

/// What an operation queues: NCCL calls on a stream, whose results it notes.
using NcclCalls = std::function<void(ncclComm_t, cudaStream_t, const std::function<void(ncclResult_t)>& note)>;

/// What rank 0 tells the others, so that a group is connected.
struct NcclStart {
    ncclUniqueId id{};
    char error[256] = {};  // why there is no id

    static NcclStart make() {
        NcclStart start;
        const ncclResult_t code = ncclGetUniqueId(&start.id);
        if (code != ncclSuccess)
            std::snprintf(start.error, sizeof start.error,
                          "hvd: ncclGetUniqueId failed on rank 0: %s; set NCCL_DEBUG=WARN "
                          "to see why",
                          nccl_words(code).c_str());
        return start;
    }
};

/// Done when NCCL has taken the calls; they run when their turn comes on the device, behind what `after` has marked. The
/// first of a group connects it: rank 0's id travels as a message on `channel`.
template <class T>
class NcclRun final : public Operation {
public:
    NcclRun(std::shared_ptr<NcclGroup> group, Channel<T> channel, std::string name, std::vector<device::Event> after,
            NcclCalls calls)
        : group_{std::move(group)},
          channel_{channel},
          name_{std::move(name)},
          after_{std::move(after)},
          calls_{std::move(calls)} {}

    bool advance() override {
        if (!group_->is_connected() && !connect()) return false;
        if (!is_launched_) {
            group_->launch(name_, after_, calls_);
            is_launched_ = true;
        }
        if (!group_->is_settled()) return false;
        group_->mark();
        return true;
    }
    int waiting_for() const override { return is_waiting_for_id_ ? 0 : -1; }

private:
    bool connect() {
        if (!group_->is_begun()) {
            if (!has_met_) {
                has_met_ = true;
                if (channel_.rank() == 0) {
                    start_ = NcclStart::make();
                    for (int peer = 1; peer < channel_.size(); ++peer)
                        messages_.push_back(channel_.send(peer, &start_, sizeof start_));
                } else {
                    messages_.push_back(channel_.receive(0, &start_, sizeof start_));
                    is_waiting_for_id_ = true;
                }
            }
            for (auto& message : messages_)
                if (!channel_.test(message)) return false;
            is_waiting_for_id_ = false;
            if (start_.error[0] != '\0') throw TransportError{start_.error};
            group_->begin(start_.id);
        }
        return group_->is_settled();
    }

    std::shared_ptr<NcclGroup> group_;
    Channel<T> channel_;
    std::string name_;
    std::vector<device::Event> after_;
    NcclCalls calls_;
    NcclStart start_{};
    std::vector<typename T::Message> messages_;
    bool has_met_ = false, is_waiting_for_id_ = false, is_launched_ = false;
};

/// Done when the device is: all that the group has launched, and without an error of NCCL.
class NcclFinish final : public Operation {
public:
    explicit NcclFinish(std::shared_ptr<NcclGroup> group) : group_{std::move(group)} {}
    bool advance() override {
        if (!group_->is_begun()) return true;
        if (!is_marked_) {
            end_ = group_->mark();
            is_marked_ = true;
        }
        return group_->is_settled() && end_.has_come() && group_->is_settled();
    }

private:
    std::shared_ptr<NcclGroup> group_;
    device::Event end_;
    bool is_marked_ = false;
};

}  // namespace hvd::detail

#endif
