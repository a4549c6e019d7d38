// The plan: which tensors travel together, in which order. Every rank makes it from the same facts, so nobody is asked
// again while steps are alike. Pure logic, without ranks or bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <hvd/core/scalar.hpp>

namespace hvd {

/// Tensors that travel together, as users see them.
struct BucketInfo {
    std::vector<std::string> tensors;
    std::size_t bytes = 0;
};

/// What `Engine::plan()` returns.
struct PlanInfo {
    std::vector<BucketInfo> buckets;
    std::size_t made = 0;              ///< plans made so far
    std::size_t reused = 0;            ///< steps that went by the plan without a word
    std::size_t control_messages = 0;  ///< sent by this rank in the last step, beside the data
};

namespace detail {

/// What all ranks know about an operation that all have submitted.
struct Agreed {
    std::string name;
    std::uint64_t signature = 0;  // all that must be equal
    std::uint64_t fuse_key = 0;   // operations with equal keys may travel together; 0: alone
    std::uint64_t bytes = 0;
    std::uint64_t place = 0;  // position in a bound buffer, plus one; 0: none
};

struct Bucket {
    std::vector<Agreed> members;
    std::uint64_t bytes = 0;
    mutable std::uint64_t known_signature = 0;  // once asked for; the members stay as they are then

    std::uint64_t signature() const {
        if (known_signature != 0) return known_signature;
        std::uint64_t h = hash_begin;
        for (const Agreed& m : members) h = hash_value(hash_bytes(h, m.name), m.signature);
        return known_signature = h;
    }
};

/// Fills buckets in the order given, up to `threshold` bytes, the first one up to `first`. One that has `enough` gets no
/// more: a longer one would not travel faster, and start later. A bucket has its place by its last tensor.
template <class Operation = Agreed>
std::vector<Bucket> make_buckets(const std::vector<Operation>& operations, std::size_t threshold, std::size_t first) {
    struct Open {
        Bucket bucket;
        std::size_t limit;
    };
    std::vector<Bucket> closed;
    std::vector<Open> open;
    constexpr std::size_t enough = std::size_t{4} << 20;
    std::size_t limit = first;
    const auto close = [&](std::size_t i) {
        closed.push_back(std::move(open[i].bucket));
        open.erase(open.begin() + static_cast<std::ptrdiff_t>(i));
    };
    for (const Operation& operation : operations) {
        if (operation.fuse_key == 0 || operation.bytes >= threshold) {
            closed.push_back({{operation}, operation.bytes});
            continue;
        }
        std::size_t i = 0;
        while (i < open.size() && open[i].bucket.members[0].fuse_key != operation.fuse_key) ++i;
        if (i < open.size() && open[i].bucket.bytes + operation.bytes > open[i].limit) {
            close(i);
            i = open.size();
        }
        if (i == open.size()) {
            open.push_back({{}, limit});
            limit = threshold;
        }
        open[i].bucket.members.push_back(operation);
        open[i].bucket.bytes += operation.bytes;
        if (open[i].bucket.bytes >= enough) close(i);
    }
    while (!open.empty()) close(0);
    // Tensors that lie side by side in a bound buffer travel as one piece.
    for (Bucket& bucket : closed) {
        bool bound = true;
        for (const Agreed& m : bucket.members) bound = bound && m.place != 0;
        if (!bound) continue;
        auto& m = bucket.members;
        for (std::size_t i = 1; i < m.size(); ++i)
            for (std::size_t k = i; k > 0 && m[k].place < m[k - 1].place; --k) std::swap(m[k], m[k - 1]);
    }
    return closed;
}

/// Follows what all ranks carry out, and foresees what comes next. A template, so that only who builds an engine pays for
/// compiling it.
template <class Bucket>
class BasicPlanner {
public:
    /// The bucket that is expected next, or nothing while nothing is known.
    std::shared_ptr<const Bucket> next() const { return plan_.empty() ? nullptr : plan_[position_]; }
    std::size_t position() const { return position_; }
    /// Equal on ranks that expect the same.
    std::uint64_t next_signature() const { return hash_value(plan_[position_]->signature(), position_); }
    const std::vector<std::shared_ptr<const Bucket>>& buckets() const { return plan_; }

    /// The expected bucket was carried out.
    void went_as_planned() {
        const std::shared_ptr<const Bucket> bucket = plan_[position_];
        const std::size_t plans = made_;
        note(bucket);
        if (made_ == plans) position_ = (position_ + 1) % plan_.size();
        else if (plan_[0]->signature() == bucket->signature()) position_ = 1 % plan_.size();
    }

    /// The ranks have talked and carry out `buckets`. When all had submitted the same, that becomes part of the plan;
    /// a step that differs on some rank leaves the plan as it is.
    /// Returns them, as they may be asked for again.
    std::vector<std::shared_ptr<const Bucket>> talked(std::vector<Bucket> buckets, bool all_alike) {
        std::vector<std::shared_ptr<const Bucket>> shared;
        if (buckets.empty()) return shared;
        for (Bucket& bucket : buckets) {
            shared.push_back(std::make_shared<const Bucket>(std::move(bucket)));
            note(shared.back());
        }
        step_talked_ = true;
        step_deviates_ = step_deviates_ || !all_alike;
        if (!step_deviates_) {
            plan_ = step_;
            ++made_;
        }
        position_ = 0;
        return shared;
    }

    /// The caller says that a step has ended: for the statistics. What the plan is made of ends by what all ranks see.
    void count_step() {
        if (step_.empty() || counted_) return;
        counted_ = true;
        if (!step_talked_) ++reused_;
    }

    std::size_t made() const { return made_; }
    std::size_t reused() const { return reused_; }

private:
    /// A step ends when a name that it had comes again. One that deviates in the same way twice is the new plan.
    void note(const std::shared_ptr<const Bucket>& bucket) {
        if (comes_again(bucket)) end_step();
        step_.push_back(bucket);
    }

    /// Whether the step has a name of this bucket. No two buckets of a plan share a name, so mostly a look at the buckets
    /// will do.
    bool comes_again(const std::shared_ptr<const Bucket>& bucket) {
        const auto is_planned = [&](const auto& b) { return std::find(plan_.begin(), plan_.end(), b) != plan_.end(); };
        if (named_ == 0 && step_.size() <= plan_.size() && is_planned(bucket)) {
            bool is_in_step = false, all_planned = true;
            for (const auto& b : step_) {
                is_in_step = is_in_step || b == bucket;
                all_planned = all_planned && is_planned(b);
            }
            if (all_planned) return is_in_step;
        }
        for (; named_ < step_.size(); ++named_)
            for (const Agreed& m : step_[named_]->members) names_.emplace(m.name, true);
        for (const Agreed& m : bucket->members)
            if (names_.count(m.name) != 0) return true;
        return false;
    }

    void end_step() {
        count_step();
        if (step_deviates_) {
            std::uint64_t signature = hash_begin;
            for (const auto& b : step_) signature = hash_value(signature, b->signature());
            if (signature == last_deviation_) {
                plan_ = step_;
                position_ = 0;
                ++made_;
            }
            last_deviation_ = signature;
        }
        step_.clear();
        names_.clear();
        named_ = 0;
        step_talked_ = step_deviates_ = counted_ = false;
    }

    std::vector<std::shared_ptr<const Bucket>> plan_, step_;
    std::unordered_map<std::string, bool> names_;  // of the first `named_` buckets of the step
    std::size_t named_ = 0, position_ = 0, made_ = 0, reused_ = 0;
    std::uint64_t last_deviation_ = 0;
    bool step_talked_ = false, step_deviates_ = false, counted_ = false;
};

using Planner = BasicPlanner<Bucket>;

/// `messages`: control messages of the last step.
template <class P = Planner>
PlanInfo describe(const P& planner, std::size_t messages) {
    PlanInfo info{{}, planner.made(), planner.reused(), messages};
    for (const auto& bucket : planner.buckets()) {
        info.buckets.push_back({{}, static_cast<std::size_t>(bucket->bytes)});
        for (const Agreed& m : bucket->members) info.buckets.back().tensors.push_back(m.name);
    }
    return info;
}

}  // namespace detail
}  // namespace hvd
