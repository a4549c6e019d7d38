// Objects as bytes: trivially copyable ones, strings, vectors, and classes with
// `template <class Archive> void serialize(Archive& a) { a(x, y); }`.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <hvd/core/error.hpp>

namespace hvd {
namespace detail {

template <class X>
struct IsVector : std::false_type {};
template <class E, class M>
struct IsVector<std::vector<E, M>> : std::true_type {};

template <class X>
struct IsString : std::false_type {};
template <class C, class R, class M>
struct IsString<std::basic_string<C, R, M>> : std::true_type {};

/// Something that refers to memory elsewhere: its bytes mean nothing on another rank.
template <class X>
concept Referring = std::is_pointer_v<X> || std::is_member_pointer_v<X> || std::ranges::view<X>;

template <class X>
concept Plain = std::is_trivially_copyable_v<X> && !Referring<X>;

class ByteWriter;
class ByteReader;

template <class X>
concept HasSerialize = requires(X& x, ByteWriter& w, ByteReader& r) {
    x.serialize(w);
    x.serialize(r);
};

template <class X>
consteval bool is_serializable() {
    if constexpr (HasSerialize<X> || IsString<X>::value) return true;
    else if constexpr (std::same_as<X, std::vector<bool>>) return false;
    else if constexpr (IsVector<X>::value) return is_serializable<typename X::value_type>();
    else return Plain<X>;
}

template <class X>
consteval bool is_plain() {
    if constexpr (HasSerialize<X>) return false;
    else return Plain<X>;
}

/// The archive that writes.
class ByteWriter {
public:
    template <class... X>
    void operator()(const X&... x) {
        (write(x), ...);
    }
    std::vector<std::byte> take() { return std::move(bytes_); }

private:
    template <class X>
    void write(const X& x) {
        if constexpr (HasSerialize<X>) {
            const_cast<X&>(x).serialize(*this);
        } else if constexpr (is_plain<X>()) {
            append(&x, sizeof x);
        } else {
            const std::uint64_t count = x.size();
            append(&count, sizeof count);
            if constexpr (is_plain<typename X::value_type>())
                append(x.data(), x.size() * sizeof(typename X::value_type));
            else
                for (const auto& element : x) write(element);
        }
    }
    void append(const void* data, std::size_t size) {
        const std::size_t old = bytes_.size();
        bytes_.resize(old + size);
        if (size > 0) std::memcpy(bytes_.data() + old, data, size);
    }

    std::vector<std::byte> bytes_;
};

/// The archive that reads. Never reads beyond the bytes, whatever they say.
class ByteReader {
public:
    explicit ByteReader(std::span<const std::byte> bytes) : bytes_{bytes} {}

    template <class... X>
    void operator()(X&... x) {
        (read(x), ...);
    }

private:
    template <class X>
    void read(X& x) {
        if constexpr (HasSerialize<X>) {
            x.serialize(*this);
        } else if constexpr (is_plain<X>()) {
            take(&x, sizeof x);
        } else {
            using Element = typename X::value_type;
            std::uint64_t count = 0;
            take(&count, sizeof count);
            x.clear();
            if constexpr (is_plain<Element>()) {
                if (count > bytes_.size() / sizeof(Element)) too_short();
                x.resize(static_cast<std::size_t>(count));
                take(x.data(), x.size() * sizeof(Element));
            } else {
                for (std::uint64_t i = 0; i < count; ++i) {
                    Element element{};
                    read(element);
                    x.push_back(std::move(element));
                }
            }
        }
    }
    void take(void* data, std::size_t size) {
        if (size > bytes_.size()) too_short();
        if (size > 0) std::memcpy(data, bytes_.data(), size);
        bytes_ = bytes_.subspan(size);
    }
    [[noreturn]] static void too_short() {
        throw UsageError{
            "hvd: an object was read from fewer bytes than it was written to; serialize() must read and write the "
            "same members in the same order on all ranks"};
    }

    std::span<const std::byte> bytes_;
};

template <class X>
consteval bool explain_object() {
    if constexpr (is_serializable<X>()) {
        return true;
    } else {
        static_assert(is_serializable<X>(),
                      "hvd: this object cannot be sent as bytes; give its class template <class Archive> void "
                      "serialize(Archive& a) { a(member, ...); }, or use numbers, strings and vectors of them");
        return false;
    }
}

template <class X>
std::vector<std::byte> to_bytes(const X& x) {
    ByteWriter writer;
    writer(x);
    return writer.take();
}

template <class X>
void from_bytes(std::span<const std::byte> bytes, X& x) {
    ByteReader reader{bytes};
    reader(x);
}

}  // namespace detail

/// An object that can be sent between ranks as bytes.
template <class X>
concept Serializable = detail::is_serializable<X>();

}  // namespace hvd
