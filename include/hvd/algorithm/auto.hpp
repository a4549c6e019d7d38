// Auto: the algorithm that suits the length of the tensor, the number of ranks, and the nodes they are on.
#pragma once

#include <memory>
#include <optional>
#include <type_traits>

#include <hvd/algorithm/auto_report.hpp>
#include <hvd/algorithm/direct.hpp>
#include <hvd/algorithm/halving_doubling.hpp>
#include <hvd/algorithm/hierarchical.hpp>
#include <hvd/algorithm/ring.hpp>
#include <hvd/algorithm/tree.hpp>
#include <hvd/transport/share.hpp>

namespace hvd {

/// Picks an algorithm per call, by a table. The default. Without a table the first communicator of each shape measures, for
/// some tens of milliseconds, what is fastest at which length; HVD_ALGORITHM (a name) and HVD_AUTO_TABLE (a file that
/// AutoTable::save wrote) take its place, so that runs can be repeated to the bit.
struct Auto {
    static constexpr std::string_view name = "auto";
    static constexpr bool is_tagged = false;

    std::optional<AutoTable> table{};
    /// Set by prepare: what this communicator goes by.
    mutable std::shared_ptr<const AutoReport> report{};

    /// What is taken from which length on, and why; of a communicator's algorithm: `comm.algorithm().explain()`.
    std::string explain() const {
        return report ? report->explain() : "Auto, which no communicator has prepared yet\n";
    }

    template <Transport T>
    using Inside = std::conditional_t<detail::SharesMemory<T>, Direct, Ring>;
    template <Transport T>
    using TwoLevel = Hierarchical<Inside<T>, Ring>;

    template <Transport T>
    struct State {
        detail::AutoRows rows{};
        detail::ScratchState scratch{};
        std::optional<detail::AlgorithmState<Inside<T>, T>> inside{};
        std::optional<typename TwoLevel<T>::template State<T>> two_level{};

        friend detail::DirectState* direct_state_of(State& state) requires detail::SharesMemory<T> {
            return state.inside ? &*state.inside : nullptr;
        }
    };

    template <Transport T>
    State<T> prepare(T& transport) const {
        State<T> state;
        const Topology& nodes = transport.topology();
        if (detail::SharesMemory<T> && nodes.nodes() == 1 && nodes.size() > 1)
            state.inside.emplace(Inside<T>{}.prepare(transport));
        if (nodes.nodes() > 1 && nodes.nodes() < nodes.size())
            state.two_level.emplace(TwoLevel<T>{}.prepare(transport));
        report = std::make_shared<const AutoReport>(decide(transport, state));
        state.rows = detail::rows_of_table(report->table, report->origin);
        for (std::size_t i = 0; i < state.rows.count; ++i) state.rows.way[i] = possible(state.rows.way[i], state);
        return state;
    }

    template <Transport T>
    std::unique_ptr<detail::Operation> start_fold(Channel<T> channel, State<T>& state, void* data, std::size_t n,
                                                  Fold fold) const {
        return start_way(state.rows.at(n * fold.element()), channel, state, data, n, fold);
    }

    template <Transport T, Scalar E, class Op>
    void run(Channel<T> channel, State<T>& state, std::span<E> data, const Op& op) const {
        detail::run_started(*this, channel, state, data, op);
    }

private:
    using Way = detail::Way;

    template <Transport T>
    static std::unique_ptr<detail::Operation> start_way(Way way, Channel<T> channel, State<T>& state, void* data,
                                                        std::size_t n, Fold fold) {
        static constexpr TwoLevel<T> two_level{};
        switch (way) {
            case Way::Direct:
                return Inside<T>{}.start_fold(channel, *state.inside, data, n, fold);
            case Way::Hierarchical:
                return two_level.start_fold(channel, *state.two_level, data, n, fold);
            case Way::Ring:
                return Ring{}.start_fold(channel, state.scratch, data, n, fold);
            case Way::HalvingDoubling:
                return HalvingDoubling{}.start_fold(channel, state.scratch, data, n, fold);
            case Way::Tree:
                break;
        }
        return Tree{}.start_fold(channel, state.scratch, data, n, fold);
    }

    template <Transport T>
    static Way possible(Way way, const State<T>& state) {
        if (way != Way::Direct && way != Way::Hierarchical) return way;
        return state.inside ? Way::Direct : state.two_level ? Way::Hierarchical : Way::Ring;
    }

    template <Transport T>
    void require_like_tables(const Channel<T>& channel, State<T>& state) const {
        const std::uint64_t own = table ? detail::hash_bytes(detail::hash_begin, table->text()) : 0;
        std::array<std::uint64_t, 2> greatest{own, ~own};
        const auto compare = start_way(Way::Tree, channel, state, greatest.data(), 2, Fold::of<std::uint64_t>(max));
        detail::wait_for(*compare, channel, "the comparison of Auto's tables");
        if (greatest[0] != ~greatest[1])
            throw UsageError{"hvd: the ranks have different tables for Auto; give all ranks the same, or none"};
    }

    template <Transport T>
    AutoReport decide(T& transport, State<T>& state) const {
        using detail::AutoWord;
        const Topology& nodes = transport.topology();
        const Channel<T> channel{transport, detail::setup_tag};
        if (nodes.size() > 1) require_like_tables(channel, state);
        if (table) return {*table, "given"};
        if (nodes.size() == 1) return {{{{0, "tree"}}}, "one rank"};
        std::vector<int> shape;
        for (int r = 0; r < nodes.size(); ++r) shape.push_back(nodes.node_of(r));
        AutoWord word = transport.rank() == 0 ? detail::auto_word<T>(shape) : AutoWord{};
        const auto tell =
            start_way(Way::Tree, channel, state, word.bytes.data(), word.bytes.size(), Fold::of<unsigned char>(max));
        detail::wait_for(*tell, channel, "the agreement on Auto's table");
        if (word.bytes[0] == AutoWord::Error) throw UsageError{word.text()};
        if (word.bytes[0] == AutoWord::Table) {
            AutoReport known;
            if (word.origin() == "measured" && detail::auto_memory<T>().find(shape, known) &&
                known.table.text() == word.text())
                return known;
            return {AutoTable::parse(word.text(), word.origin()), word.origin()};
        }
        std::vector<Way> ways{Way::Tree, Way::HalvingDoubling, Way::Ring};
        if (state.inside) ways.insert(ways.begin(), Way::Direct);
        if (state.two_level) ways.push_back(Way::Hierarchical);
        const auto times =
            detail::measure_ways(channel, std::move(ways), 0.04, [&](Way way, void* data, std::size_t n, Fold fold) {
                return start_way(way, channel, state, data, n, fold);
            });
        const AutoReport measured{detail::table_from(times, state.two_level ? Way::Hierarchical : Way::Ring),
                                  "measured", times};
        detail::auto_memory<T>().keep(shape, measured);
        return measured;
    }
};

}  // namespace hvd
