// Data sets in files: what they give, and that no damaged file gives anything else than a DataError.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include <hvd/data/file_dataset.hpp>
#include <hvd/data/idx_dataset.hpp>
#include <hvd/data/sharded_dataset.hpp>

using hvd::DataError;
using hvd::IdxDataset;
using Bytes = std::vector<unsigned char>;

namespace {

/// A file of its own name, removed at the end.
class File {
public:
    explicit File(const Bytes& content) {
        const char* folder = std::getenv("TMPDIR");
        path_ = std::string{folder != nullptr ? folder : "/tmp"} + "/hvd-data-XXXXXX";
        const int descriptor = ::mkstemp(path_.data());
        REQUIRE(descriptor >= 0);
        REQUIRE(::write(descriptor, content.data(), content.size()) == static_cast<ssize_t>(content.size()));
        ::close(descriptor);
    }
    File(const File&) = delete;
    ~File() { ::unlink(path_.c_str()); }
    const std::string& path() const { return path_; }

private:
    std::string path_;
};

Bytes idx(const std::vector<std::uint32_t>& shape, std::size_t elements, unsigned char type = 8) {
    Bytes bytes = {0, 0, type, static_cast<unsigned char>(shape.size())};
    for (std::uint32_t extent : shape)
        for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<unsigned char>(extent >> shift));
    for (std::size_t i = 0; i < elements; ++i) bytes.push_back(static_cast<unsigned char>(i * 7 + 1));
    return bytes;
}

struct Failure {
    std::string text;
    std::size_t offset = SIZE_MAX;
};

template <class F>
Failure failure_of(F&& f) {
    try {
        f();
    } catch (const DataError& e) {
        return {e.what(), e.offset()};
    }
    return {"no DataError"};
}

template <class Set = IdxDataset>
Failure failure_of_idx(const Bytes& content) {
    const File file{content};
    const Failure failure = failure_of([&] { Set set{file.path()}; });
    if (failure.offset != SIZE_MAX) CHECK(failure.text.find("hvd: " + file.path() + " at byte") == 0);
    return failure;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// All bytes that the set gives are read, so that a sanitizer sees any that are not there.
template <class Set>
std::size_t read_all(const Set& set) {
    std::size_t sum = 0, count = 0;
    for (std::size_t i = 0; i < set.size(); ++i)
        for (std::uint8_t byte : set[i]) sum += byte, ++count;
    CHECK(count == set.size() * set.sample_size());
    return sum;
}

}  // namespace

TEST_CASE("an IDX file gives its images, or its labels as spans of one byte") {
    const File images{idx({4, 2, 3}, 24)};
    IdxDataset set{images.path()};
    CHECK(set.size() == 4);
    CHECK(set.shape() == std::vector<std::size_t>{4, 2, 3});
    CHECK(set.sample_size() == 6);
    for (std::size_t i = 0; i < 4; ++i) {
        const std::span<const std::uint8_t> image = set[i];
        REQUIRE(image.size() == 6);
        for (std::size_t k = 0; k < 6; ++k) CHECK(image[k] == static_cast<std::uint8_t>((i * 6 + k) * 7 + 1));
    }
    const auto first = set[0];
    const IdxDataset moved{std::move(set)};
    CHECK(moved[0].data() == first.data());
    CHECK(set.size() == 0);

    const File labels{idx({9}, 9)};
    const IdxDataset label_set{labels.path().c_str()};
    CHECK(label_set.size() == 9);
    CHECK(label_set[3].size() == 1);
    CHECK(label_set[3][0] == 22);

    const File none{idx({0, 28, 28}, 0)};
    CHECK(IdxDataset{none.path()}.size() == 0);
}

TEST_CASE("damaged IDX files: the offset and the reason") {
    CHECK(contains(failure_of([] { IdxDataset set{"/no/such/file"}; }).text, "No such file"));
    CHECK(contains(failure_of([] { IdxDataset set{"/tmp"}; }).text, "no regular file"));
    CHECK(failure_of_idx({}).offset == 0);
    CHECK(failure_of_idx({0, 0, 8}).offset == 3);
    CHECK(failure_of_idx({0, 0, 8, 1, 0, 0}).offset == 6);
    CHECK(failure_of_idx({1, 0, 8, 1, 0, 0, 0, 0}).offset == 0);
    CHECK(failure_of_idx({0, 2, 8, 1, 0, 0, 0, 0}).offset == 1);
    CHECK(failure_of_idx({0, 0, 7, 1, 0, 0, 0, 0}).offset == 2);
    CHECK(contains(failure_of_idx(idx({2}, 8, 0x0D)).text, "float"));
    CHECK(failure_of_idx({0, 0, 8, 0, 0}).offset == 3);
    CHECK(failure_of_idx(idx({5, 2}, 9)).offset == 12 + 9);
    CHECK(contains(failure_of_idx(idx({5, 2}, 9)).text, "has 22 bytes"));
    CHECK(failure_of_idx(idx({5, 2}, 11)).offset == 12 + 10);
    CHECK(failure_of_idx(idx({0xFFFFFFFF, 0}, 0)).offset == 8);
    CHECK(failure_of_idx(idx({0xFFFFFFFF}, 10)).offset == 18);
    CHECK(contains(failure_of_idx(idx({0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, 10)).text, "absurd"));
    CHECK(contains(failure_of_idx(idx(std::vector<std::uint32_t>(255, 0xFFFFFFFF), 10)).text, "absurd"));
    CHECK(contains(failure_of_idx(idx({0, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, 0)).text, "absurd"));
    CHECK(contains(failure_of_idx(idx({0x80000000, 0x80000000, 2}, 10)).text, "absurd"));  // 2^63
    CHECK(contains(failure_of_idx(idx({0x80000000, 0x80000000, 4}, 10)).text, "absurd"));  // 2^64 = 0
}

TEST_CASE("an IDX file cut anywhere, or with any bit turned, is refused or is what its header says") {
    for (const Bytes& whole : {idx({5}, 5), idx({2, 2, 3}, 12)}) {
        for (std::size_t size = 0; size < whole.size(); ++size) {
            const Failure failure =
                failure_of_idx(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)));
            CHECK(failure.offset == size);
        }
        for (std::size_t at = 0; at < whole.size(); ++at)
            for (int bit = 0; bit < 8; ++bit) {
                Bytes damaged = whole;
                damaged[at] = static_cast<unsigned char>(damaged[at] ^ (1 << bit));
                const File file{damaged};
                const std::size_t header = std::size_t{4} + 4 * whole[3];
                try {
                    const IdxDataset set{file.path()};
                    CHECK(at >= header);  // each bit of the header matters
                    CHECK(read_all(set) == std::accumulate(damaged.begin() + static_cast<std::ptrdiff_t>(header),
                                                           damaged.end(), std::size_t{0}));
                } catch (const DataError& e) {
                    CHECK(at < header);
                    CHECK(e.offset() <= whole.size());
                }
            }
    }
}

TEST_CASE("without zlib a .gz file is refused with what to define") {
    const auto failure = failure_of_idx<hvd::BasicIdxDataset<hvd::NoInflate>>({0x1f, 0x8b, 8, 0});
    CHECK(failure.offset == 0);
    CHECK(contains(failure.text, "HVD_WITH_ZLIB"));
}

#ifdef HVD_WITH_ZLIB
namespace {

Bytes gzip(const Bytes& plain) {
    z_stream stream{};
    REQUIRE(::deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
    Bytes out(::deflateBound(&stream, plain.size()));
    stream.next_in = const_cast<Bytef*>(plain.data());
    stream.avail_in = static_cast<uInt>(plain.size());
    stream.next_out = out.data();
    stream.avail_out = static_cast<uInt>(out.size());
    REQUIRE(::deflate(&stream, Z_FINISH) == Z_STREAM_END);
    out.resize(stream.total_out);
    ::deflateEnd(&stream);
    return out;
}

}  // namespace

TEST_CASE("a compressed IDX file, known by its content and not its name") {
    for (std::size_t count : {1u, 5u, 300000u}) {  // more than one step of decompression
        const Bytes plain = idx({static_cast<std::uint32_t>(count), 3}, count * 3);
        const File file{gzip(plain)}, same{plain};
        IdxDataset set{file.path()};
        const IdxDataset expected{same.path()};
        REQUIRE(set.size() == count);
        CHECK(set.shape() == expected.shape());
        CHECK(read_all(set) == read_all(expected));
        const auto last = set[count - 1];
        const IdxDataset moved{std::move(set)};
        CHECK(moved[count - 1].data() == last.data());
    }
    const Bytes plain = idx({6}, 6);
    Bytes two = gzip(Bytes(plain.begin(), plain.begin() + 9));  // as `cat a.gz b.gz` makes
    const Bytes second = gzip(Bytes(plain.begin() + 9, plain.end()));
    two.insert(two.end(), second.begin(), second.end());
    const File file{two};
    CHECK(IdxDataset{file.path()}[5][0] == plain.back());
}

TEST_CASE("compressed and damaged: cut, bits turned, more behind, wrong inside") {
    const Bytes plain = idx({40, 3}, 120), whole = gzip(plain);
    const File good{plain};
    const std::size_t sum = read_all(IdxDataset{good.path()});
    for (std::size_t size = 2; size < whole.size(); ++size) {
        const Failure failure = failure_of_idx(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)));
        CHECK(failure.offset == size);
        CHECK(contains(failure.text, "truncated"));
    }
    for (std::size_t at = 0; at < whole.size(); ++at)
        for (int bit = 0; bit < 8; ++bit) {
            Bytes damaged = whole;
            damaged[at] = static_cast<unsigned char>(damaged[at] ^ (1 << bit));
            const File file{damaged};
            try {
                const IdxDataset set{file.path()};
                CHECK(read_all(set) == sum);  // only the gzip header's time and the like is under no checksum
            } catch (const DataError& e) {
                CHECK(e.offset() <= whole.size());
            }
        }
    Bytes longer = whole;
    longer.push_back(0);
    CHECK(failure_of_idx(longer).offset == whole.size());
    CHECK(contains(failure_of_idx(gzip({})).text, "inside the header"));
    CHECK(failure_of_idx(gzip(idx({5, 2}, 9))).offset == 21);
    CHECK(failure_of_idx(gzip(idx({5, 2}, 11))).offset == 22);
    CHECK(contains(failure_of_idx(gzip(idx({5, 2}, 11))).text, "decompressed"));
    CHECK(contains(failure_of_idx(gzip(idx({0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, 10))).text, "absurd"));
}

TEST_CASE("a compressed file whose header promises 16 TiB allocates nothing of the kind") {
    rusage before{}, after{};
    ::getrusage(RUSAGE_SELF, &before);
    CHECK(failure_of_idx(gzip(idx({0xFFFFFFFF, 4096}, 100))).offset == 112);
    ::getrusage(RUSAGE_SELF, &after);
    CHECK(after.ru_maxrss - before.ru_maxrss < 64 * 1024);  // KiB

    // little data behind the header, much data compressed: what is more than the header says is never stored
    Bytes bomb = idx({10}, 10);
    bomb.resize(std::size_t{200} << 20);
    const Bytes compressed = gzip(bomb);
    bomb = {};
    ::getrusage(RUSAGE_SELF, &before);
    CHECK(failure_of_idx(compressed).offset == 18);
    ::getrusage(RUSAGE_SELF, &after);
    CHECK(after.ru_maxrss - before.ru_maxrss < 64 * 1024);
}
#endif

TEST_CASE("a file of records") {
    struct Record {
        std::uint32_t id;
        float value;
    };
    Bytes bytes(5 * sizeof(Record));
    for (std::uint32_t i = 0; i < 5; ++i) {
        const Record record{i, static_cast<float>(i) / 2};
        std::memcpy(bytes.data() + i * sizeof(Record), &record, sizeof(Record));
    }
    const File file{bytes};
    hvd::FileDataset<Record> set{file.path()};
    static_assert(hvd::Dataset<const hvd::FileDataset<Record>>);
    REQUIRE(set.size() == 5);
    CHECK(set[3].id == 3);
    CHECK(set[4].value == 2.0f);
    std::uint32_t sum = 0;
    for (const Record& record : set) sum += record.id;
    CHECK(sum == 10);

    struct World {
        int rank() const { return 1; }
        int size() const { return 2; }
    };
    hvd::ShardedDataset data{std::move(set), World{}, {.batch_size = 2, .last = hvd::Last::Drop, .shuffle = false}};
    std::vector<std::uint32_t> ids;
    for (auto batch : data.epoch(0))
        for (const Record& record : batch) ids.push_back(record.id);
    CHECK(ids == std::vector<std::uint32_t>{2, 3});

    for (std::size_t cut = 1; cut < sizeof(Record); ++cut) {
        Bytes part = bytes;
        part.resize(bytes.size() - cut);
        const File truncated{part};
        const Failure failure = failure_of([&] { hvd::FileDataset<Record> t{truncated.path()}; });
        CHECK(failure.offset == 4 * sizeof(Record));
        CHECK(contains(failure.text, "of a record"));
    }
    const File empty{{}};
    CHECK(hvd::FileDataset<Record>{empty.path()}.size() == 0);
    CHECK(contains(failure_of([] { hvd::FileDataset<Record> t{"/no/such/file"}; }).text, "No such file"));
}

TEST_CASE("a pipe is refused at once, and a file without permission with the reason") {
    const File place{{}};
    const std::string pipe = place.path() + ".pipe";
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    CHECK(contains(failure_of([&] { hvd::MappedFile file{pipe}; }).text, "no regular file"));
    ::unlink(pipe.c_str());
    if (::geteuid() != 0) {
        ::chmod(place.path().c_str(), 0);
        CHECK(contains(failure_of([&] { hvd::MappedFile file{place.path()}; }).text, "Permission denied"));
    }
}
