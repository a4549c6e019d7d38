// A suite that any transport can be run through.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <hvd/testing/expect.hpp>
#include <hvd/testing/values.hpp>
#include <hvd/transport/transport.hpp>

namespace hvd::testing {
namespace detail {

template <Transport T>
class TransportSuite {
public:
    TransportSuite(T& transport, std::size_t longest)
        : t_{transport}, worker_{t_.worker()}, rank_{t_.rank()}, size_{t_.size()}, longest_{longest} {}

    void run() {
        expect(size_ >= 1 && rank_ >= 0 && rank_ < size_, "rank() and size() contradict each other");
        expect(worker_ != nullptr, "worker() gives nothing");
        nothing();
        lengths();
        order();
        tags();
        all_to_all();
        shorter();
        abandoned();
        topology();
        subgroups();
        too_long();
    }

private:
    using Message = typename T::Message;
    using Bytes = std::vector<std::byte>;

    Bytes content(int from, int salt, std::size_t n) const {
        Bytes bytes(n);
        for (std::size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>(scrambled(from + 1000 * salt, i));
        return bytes;
    }
    void check_content(const Bytes& got, int from, int salt, std::size_t n, const char* when) const {
        const Bytes want = content(from, salt, n);
        const bool right = got.size() >= n && std::equal(want.begin(), want.end(), got.begin());
        expect(right, [&] {
            return std::to_string(n) + " bytes from rank " + std::to_string(from) + " arrived wrong: " + when;
        });
        for (std::size_t i = n; i < got.size(); ++i)
            expect(got[i] == std::byte{0x5a},
                   [&] { return std::string{"bytes beyond a message were written: "} + when; });
    }
    static Bytes room(std::size_t n) { return Bytes(n, std::byte{0x5a}); }

    void wait(T& t, Message& message) const {
        worker_->wait_until([&] { return t.test(message); },
                            [] { return std::string{"a message of check_transport"}; });
    }
    void wait(Message& message) const { wait(t_, message); }
    int next() const { return (rank_ + 1) % size_; }
    int before() const { return (rank_ + size_ - 1) % size_; }

    /// Nobody leaves before all have come: around the ring twice.
    void meet(int tag) {
        for (int turn = 0; turn < 2 && size_ > 1; ++turn) {
            std::byte out{1}, in{0};
            if (rank_ != 0) {
                Message m = t_.receive(before(), tag, &in, 1);
                wait(m);
            }
            Message sent = t_.send(next(), tag, &out, 1);
            wait(sent);
            if (rank_ == 0) {
                Message m = t_.receive(before(), tag, &in, 1);
                wait(m);
            }
        }
    }

    void nothing() {
        Message none{};
        expect(t_.test(none), "a message made by default is not complete");
        Message moved = std::move(none);
        expect(t_.test(moved), "a moved empty message is not complete");
    }

    /// Around the ring, also those of no bytes; received before and after they are sent.
    void lengths() {
        if (size_ == 1) return;
        int salt = 0;
        for (std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{255}, std::size_t{256}, std::size_t{257},
                              std::size_t{4095}, std::size_t{65536}, std::size_t{65537}, longest_}) {
            for (bool receive_first : {true, false}) {
                ++salt;
                const Bytes out = content(rank_, salt, n);
                Bytes in = room(n + 3);
                Message received{}, sent{};
                if (receive_first) received = t_.receive(before(), 1, in.data(), n);
                sent = t_.send(next(), 1, out.data(), n);
                if (!receive_first) received = t_.receive(before(), 1, in.data(), n);
                wait(received);
                wait(sent);
                check_content(in, before(), salt, n, "one message around the ring");
                expect(t_.test(received) && t_.test(sent), "a complete message does not stay so");
            }
        }
    }

    /// Messages with one tag arrive in the order sent, whatever their lengths.
    void order() {
        if (size_ == 1) return;
        const std::size_t lengths[] = {5, 100000, 0, 300, 7, 70000, 1, 0, 256};
        std::vector<Bytes> out, in;
        std::vector<Message> messages;
        int salt = 100;
        for (std::size_t n : lengths) {
            out.push_back(content(rank_, salt++, n));
            in.push_back(room(n));
        }
        for (const Bytes& bytes : out) messages.push_back(t_.send(next(), 2, bytes.data(), bytes.size()));
        for (Bytes& bytes : in) messages.push_back(t_.receive(before(), 2, bytes.data(), bytes.size()));
        for (Message& m : messages) wait(m);
        salt = 100;
        for (const Bytes& bytes : in) check_content(bytes, before(), salt++, bytes.size(), "many with one tag");
    }

    /// Tags keep messages apart: taken in the opposite order, from the first tag to the last.
    void tags() {
        if (size_ == 1) return;
        const int all[] = {0, 1, 77, 4096, 32767};
        std::vector<Bytes> out, in(5);
        std::vector<Message> messages;
        for (int tag : all) out.push_back(content(rank_, 200 + tag, 500 + static_cast<std::size_t>(tag)));
        for (std::size_t i = 0; i < 5; ++i) messages.push_back(t_.send(next(), all[i], out[i].data(), out[i].size()));
        for (std::size_t i = 5; i-- > 0;) {
            in[i] = room(out[i].size());
            Message m = t_.receive(before(), all[i], in[i].data(), in[i].size());
            wait(m);
            check_content(in[i], before(), 200 + all[i], in[i].size(), "tags in the opposite order");
        }
        for (Message& m : messages) wait(m);
    }

    /// Every rank to every other at once, and messages that move while they are under way.
    void all_to_all() {
        std::vector<Bytes> in;
        std::vector<Message> messages;
        const Bytes out = content(rank_, 300, 3000);
        for (int peer = 0; peer < size_; ++peer) in.push_back(room(3000));
        for (int peer = 0; peer < size_; ++peer)
            if (peer != rank_) messages.push_back(t_.receive(peer, 3, in[static_cast<std::size_t>(peer)].data(), 3000));
        for (int peer = 0; peer < size_; ++peer)
            if (peer != rank_) messages.push_back(t_.send(peer, 3, out.data(), out.size()));
        std::vector<Message> moved;
        for (Message& m : messages) moved.push_back(std::move(m));
        for (Message& m : moved) wait(m);
        for (int peer = 0; peer < size_; ++peer)
            if (peer != rank_) check_content(in[static_cast<std::size_t>(peer)], peer, 300, 3000, "all to all");
    }

    /// A message may be shorter than the room for it.
    void shorter() {
        if (size_ == 1) return;
        for (std::size_t n : {std::size_t{0}, std::size_t{10}, std::size_t{90000}}) {
            const Bytes out = content(rank_, 400, n);
            Bytes in = room(100000);
            Message received = t_.receive(before(), 4, in.data(), in.size()), sent = t_.send(next(), 4, out.data(), n);
            wait(received);
            wait(sent);
            check_content(in, before(), 400, n, "shorter than the room for it");
        }
    }

    /// A receive that is given up takes no later message, and its memory may go.
    void abandoned() {
        if (size_ == 1) return;
        for (std::size_t n : {std::size_t{20}, std::size_t{200000}}) {
            {
                Bytes gone = room(n);
                const Message dropped = t_.receive(before(), 5, gone.data(), n);
            }
            meet(6);
            const Bytes out = content(rank_, 500, n);
            Bytes in = room(n);
            Message sent = t_.send(next(), 5, out.data(), n), received = t_.receive(before(), 5, in.data(), n);
            wait(received);
            wait(sent);
            check_content(in, before(), 500, n, "after a receive was given up");
        }
    }

    void topology() {
        const Topology& nodes = t_.topology();
        expect(nodes.size() == size_, "topology() has another size");
        expect(nodes.node() == nodes.node_of(rank_), "topology().node() is not that of this rank");
        int on_mine = 0, in_all = 0, with_place = 0;
        for (int r = 0; r < size_; ++r) {
            expect(nodes.node_of(r) >= 0 && nodes.node_of(r) < nodes.nodes(), "a rank is on no node");
            if (nodes.node_of(r) != nodes.node()) continue;
            if (r == rank_) expect(nodes.local_rank() == on_mine, "local_rank() does not count the ranks of the node");
            ++on_mine;
        }
        for (int n = 0; n < nodes.nodes(); ++n) {
            in_all += nodes.node_size(n);
            if (nodes.node_size(n) > nodes.local_rank()) ++with_place;
        }
        expect(on_mine == nodes.local_size() && in_all == size_, "the sizes of the nodes do not add up");
        expect(nodes.cross_size() == with_place, "cross_size() is not the number of nodes with this local rank");
        expect(nodes.cross_rank() >= 0 && nodes.cross_rank() < with_place, "cross_rank() is out of range");
        // All ranks see the same nodes.
        if (size_ == 1) return;
        std::vector<int> mine(static_cast<std::size_t>(size_)), theirs(mine.size());
        for (int r = 0; r < size_; ++r) mine[static_cast<std::size_t>(r)] = nodes.node_of(r);
        const std::size_t bytes = mine.size() * sizeof(int);
        Message received = t_.receive(before(), 7, reinterpret_cast<std::byte*>(theirs.data()), bytes);
        Message sent = t_.send(next(), 7, reinterpret_cast<const std::byte*>(mine.data()), bytes);
        wait(received);
        wait(sent);
        expect(mine == theirs, "two ranks see different nodes");
    }

    /// Ranks by parity, in the opposite order; both groups are made at once, with the same id. Their messages, the
    /// parent's and those of a second pair of groups do not meet.
    void subgroups() {
        std::vector<int> members;
        for (int r = size_ - 1; r >= 0; --r)
            if (r % 2 == rank_ % 2) members.push_back(r);
        meet(8);
        T first = t_.subgroup(members, 11), second = t_.subgroup(members, 12);
        for (T* group : {&first, &second}) {
            expect(group->size() == static_cast<int>(members.size()), "a subgroup has another size");
            expect(members[static_cast<std::size_t>(group->rank())] == rank_, "a subgroup has another order");
            expect(group->worker() == worker_, "a subgroup has another worker");
            for (int r = 0; r < group->size(); ++r) {
                const bool together =
                    t_.topology().node_of(members[static_cast<std::size_t>(r)]) == t_.topology().node();
                expect((group->topology().node_of(r) == group->topology().node()) == together,
                       "a subgroup has other nodes");
            }
        }
        const int p = first.size(), after = (first.rank() + 1) % p, ahead = (first.rank() + p - 1) % p;
        const int from = members[static_cast<std::size_t>(ahead)];
        if (p > 1) {
            const Bytes a = content(rank_, 600, 1000), b = content(rank_, 601, 1000), c = content(rank_, 602, 1000);
            Bytes in_a = room(1000), in_b = room(1000), in_c = room(1000);
            const int to = members[static_cast<std::size_t>(after)];
            Message sends[] = {first.send(after, 9, a.data(), 1000), second.send(after, 9, b.data(), 1000),
                               t_.send(to, 9, c.data(), 1000)};
            Message receives[] = {t_.receive(from, 9, in_c.data(), 1000), second.receive(ahead, 9, in_b.data(), 1000),
                                  first.receive(ahead, 9, in_a.data(), 1000)};
            wait(receives[0]);
            wait(second, receives[1]);
            wait(first, receives[2]);
            wait(first, sends[0]);
            wait(second, sends[1]);
            wait(sends[2]);
            check_content(in_a, from, 600, 1000, "in a subgroup");
            check_content(in_b, from, 601, 1000, "in another subgroup of the same ranks");
            check_content(in_c, from, 602, 1000, "in the parent of subgroups");
        }
        // A subgroup of a subgroup, of one rank and of all.
        const int own[] = {first.rank()};
        T alone = first.subgroup(own, 13);
        expect(alone.size() == 1 && alone.rank() == 0, "a subgroup of one");
        std::vector<int> everyone(static_cast<std::size_t>(size_));
        for (int r = 0; r < size_; ++r) everyone[static_cast<std::size_t>(r)] = r;
        meet(10);
        const T all = t_.subgroup(everyone, 14);
        expect(all.size() == size_ && all.rank() == rank_, "a subgroup of all");
    }

    /// A message that is longer than the room for it is a TransportError of its receiver. In a group of its own, whose
    /// ranks are not heard of again.
    void too_long() {
        if (size_ == 1) return;
        std::vector<int> pair{0, 1};
        meet(15);
        if (rank_ > 1) return;
        auto group = std::make_shared<T>(t_.subgroup(pair, 16));
        for (std::size_t n : {std::size_t{100}, std::size_t{100000}}) {
            const Bytes out = content(rank_, 700, n);
            Bytes in = room(n - 1);
            if (rank_ == 0) {
                try {
                    Message sent = group->send(1, 1, out.data(), n);
                    wait(*group, sent);
                } catch (const TransportError&) {  // the sender may be told, too
                }
            } else {
                expect_throws<TransportError>([&] {
                    Message received = group->receive(0, 1, in.data(), n - 1);
                    wait(*group, received);
                });
            }
        }
    }

    T& t_;
    std::shared_ptr<hvd::detail::Worker> worker_;
    int rank_, size_;
    std::size_t longest_;
};

}  // namespace detail

/// Collective over the ranks of `transport`: messages of all lengths up to `longest` bytes, their order, tags, messages
/// that are shorter or longer than the room for them, receives that are given up, subgroups, and the topology. Throws
/// Failure on the rank that sees something wrong. Uses tags below 16, the last one, and subgroup ids 11 to 16.
template <Transport T>
void check_transport(T& transport, std::size_t longest = (std::size_t{1} << 20) + 5) {
    detail::TransportSuite<T>{transport, longest}.run();
}

}  // namespace hvd::testing
