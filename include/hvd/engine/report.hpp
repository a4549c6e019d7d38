// Reports: what the ranks tell each other when they do not all expect the same, and what follows from them. Pure logic.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <hvd/comm/agreement.hpp>
#include <hvd/engine/plan.hpp>

namespace hvd::detail {

enum class Kind : std::uint64_t { Allreduce, Allgather, Broadcast, ReduceScatter, Alltoall };

/// What an operation is, for ranks that do not have it.
struct Metadata {
    std::string name;
    std::uint64_t signature = 0, fuse_key = 0, bytes = 0, place = 0;
    std::uint64_t kind = 0;  // of the operation, see Kind in entry.hpp
    std::uint64_t scalar_id = 0, scalar_size = 1, width = 1;
    std::uint64_t root = 0;
    std::string text;  // "allreduce of 4 float with sum"
    std::vector<std::uint64_t> trailing{};

    template <class Archive>
    void serialize(Archive& a) {
        a(name, signature, fuse_key, bytes, place, kind, scalar_id, scalar_size, width, root, text, trailing);
    }
};

/// One rank's report.
struct RankReport {
    std::uint8_t joined = 0;
    std::uint64_t joined_at = 0;      // round in which it joined
    std::vector<Metadata> pending{};  // in the order submitted

    template <class Archive>
    void serialize(Archive& a) {
        a(joined, joined_at, pending);
    }
};

/// What all ranks do after reading all reports.
struct Decision {
    std::vector<Metadata> run{};                                  // in the order of the first rank that has not joined
    std::vector<std::pair<std::string, std::string>> failures{};  // name and sentence
    std::vector<char> joined{};                                   // by rank
    int participants = 0;
    bool all_alike = true;  // all ranks had submitted the same, and all of it is run
    bool all_joined = false;
    int last_joined = -1;
};

/// Why an operation cannot be carried out without the ranks that have joined; empty when it can.
template <class Message = Metadata>
std::string refusal_without_joined(const Message& m, const std::vector<char>& joined) {
    const auto kind = static_cast<Kind>(m.kind);
    const bool root_is_gone = kind == Kind::Broadcast && joined[static_cast<std::size_t>(m.root)] != 0;
    if (!root_is_gone && kind != Kind::ReduceScatter) return {};
    return "hvd: '" + m.name + "' cannot be carried out, since " +
           (root_is_gone ? "its root has joined" : "reduce_scatter needs all ranks and one has joined") +
           "; call it before join()";
}

/// An operation is run when all ranks that have not joined have it alike, fails when they have it in different forms, and
/// waits while one of them does not have it.
template <class Report = RankReport>
Decision decide(const std::vector<Report>& reports) {
    Decision decision;
    std::size_t first = reports.size();
    std::uint64_t latest = 0;
    for (std::size_t r = 0; r < reports.size(); ++r) {
        decision.joined.push_back(static_cast<char>(reports[r].joined));
        if (reports[r].joined == 0) {
            ++decision.participants;
            if (first == reports.size()) first = r;
        } else if (reports[r].joined_at >= latest) {
            latest = reports[r].joined_at;
            decision.last_joined = static_cast<int>(r);
        }
    }
    if (first == reports.size()) {
        decision.all_joined = true;
        return decision;
    }
    std::vector<std::unordered_map<std::string, const Metadata*>> tables(reports.size());
    for (std::size_t r = 0; r < reports.size(); ++r)
        for (const Metadata& m : reports[r].pending) tables[r].emplace(m.name, &m);

    for (const Metadata& mine : reports[first].pending) {
        std::vector<std::string> forms{mine.text};
        std::vector<std::vector<int>> ranks{{static_cast<int>(first)}};
        bool everywhere = true, differs = false;
        for (std::size_t r = 0; r < reports.size(); ++r) {
            if (r == first || reports[r].joined != 0) continue;
            const auto found = tables[r].find(mine.name);
            if (found == tables[r].end()) {
                everywhere = false;
                continue;
            }
            const Metadata& other = *found->second;
            differs = differs || other.signature != mine.signature;
            std::size_t k = 0;
            while (k < forms.size() && forms[k] != other.text) ++k;
            if (k == forms.size()) {
                forms.push_back(other.text);
                ranks.emplace_back();
            }
            ranks[k].push_back(static_cast<int>(r));
        }
        if (!everywhere) continue;
        if (!differs) {
            const bool all = decision.participants == static_cast<int>(reports.size());
            std::string refusal = all ? std::string{} : refusal_without_joined(mine, decision.joined);
            if (refusal.empty()) decision.run.push_back(mine);
            else decision.failures.emplace_back(mine.name, std::move(refusal));
            continue;
        }
        std::string sentence = "hvd: the ranks disagree about '" + mine.name + "': ";
        for (std::size_t k = 0; k < forms.size() && k < 4; ++k) {
            if (k > 0) sentence += ", ";
            sentence += rank_list(ranks[k]) + (ranks[k].size() == 1 ? " submits " : " submit ") + forms[k];
        }
        decision.failures.emplace_back(mine.name, sentence + "; submit the same on every rank");
    }
    for (const Report& report : reports)
        if (report.joined != 0 || report.pending.size() != decision.run.size()) decision.all_alike = false;
    return decision;
}

}  // namespace hvd::detail
