// sparse_allreduce: both ways give the same.
#include "workers.hpp"

namespace {

template <class Call>
std::string thrown(Call&& call) {
    try {
        call();
    } catch (const hvd::UsageError& e) {
        return e.what();
    }
    return {};
}

}  // namespace

TEST_CASE("few rows of a large tensor and many of a small one are added up alike") {
    on_workers({1, 2, 3, 5}, [](const World& world) {
        const int p = world.size();
        for (int rows : {4, 100000}) {  // dense, and gathered
            // Rank r has rows 0 .. r, each twice, and the last row; rank 0 of several has none at all.
            std::vector<int> indices;
            std::vector<float> values;
            const bool has_none = p > 1 && world.rank() == 0;
            for (int i = 0; !has_none && i <= world.rank() % 3; ++i)
                for (int twice = 0; twice < 2; ++twice) {
                    indices.push_back(i);
                    for (int k = 0; k < 3; ++k) values.push_back(static_cast<float>(k + 1));
                }
            if (!has_none) {
                indices.push_back(rows - 1);
                values.insert(values.end(), {1, 1, 1});
            }
            std::vector<int> counts(4, 0);
            for (int r = p > 1 ? 1 : 0; r < p; ++r) {
                for (int i = 0; i <= r % 3; ++i) counts[static_cast<std::size_t>(i)] += 2;
                ++counts[3];
            }
            hvd::sparse_allreduce(world, indices, values);
            std::vector<int> expected;
            for (int i = 0; i < 3; ++i)
                if (counts[static_cast<std::size_t>(i)] > 0) expected.push_back(i);
            expected.push_back(rows - 1);
            expect(indices == expected, "the rows that any rank had, in order");
            expect(values.size() == 3 * indices.size(), "a row each");
            for (std::size_t i = 0; i + 1 < indices.size(); ++i)
                expect(values[3 * i + 2] == static_cast<float>(3 * counts[i]), "the sums");
            expect(values.back() == static_cast<float>(counts[3]), "the last row");
        }
        std::vector<long> none;
        std::vector<double> nothing;
        hvd::sparse_allreduce(world, none, nothing, hvd::average);
        expect(none.empty() && nothing.empty(), "no rows at all");
    });
}

TEST_CASE("wrong rows are an error on all ranks") {
    on_workers({2, 3}, [](const World& world) {
        std::vector<int> indices{1, 2};
        std::vector<float> values(world.rank() == 0 ? 3 : 4);
        expect(!thrown([&] { hvd::sparse_allreduce(world, indices, values); }).empty(), "no whole number of rows");
        values.assign(world.rank() == 0 ? 2 : 4, 1.0f);
        expect(thrown([&] { hvd::sparse_allreduce(world, indices, values); }).find("from 1 to 2") != std::string::npos,
               "lengths of rows");
        values.assign(4, 1.0f);
        indices[0] = world.rank() == 1 ? -1 : 0;
        expect(!thrown([&] { hvd::sparse_allreduce(world, indices, values); }).empty(), "a negative index");
        expect_works(world);
    });
}
