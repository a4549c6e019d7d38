// Scalars: the element types that can travel and be reduced.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <hvd/core/float16.hpp>

namespace hvd {

/// Set to true for a trivially copyable type of your own, which then travels and is reduced by your operation:
/// `template <> inline constexpr bool hvd::enable_scalar<my::Pair> = true;`
template <class T>
inline constexpr bool enable_scalar = false;

namespace detail {

/// std::complex<float> and std::complex<double>, known by their form, so that core need not include <complex>.
template <class T>
concept ComplexScalar = std::is_class_v<T> && requires(const T& z) {
    typename T::value_type;
    requires std::same_as<typename T::value_type, float> || std::same_as<typename T::value_type, double>;
    requires sizeof(T) == 2 * sizeof(typename T::value_type);
    { z.real() } -> std::same_as<typename T::value_type>;
    { z.imag() } -> std::same_as<typename T::value_type>;
    z* z;
};

template <class T>
concept Float16Scalar = std::same_as<T, float16> || std::same_as<T, bfloat16>;

template <class T>
concept BuiltinScalar =
    std::integral<T> || std::same_as<T, float> || std::same_as<T, double> || Float16Scalar<T> || ComplexScalar<T>;

}  // namespace detail

/// An element type: bool, integers, float16, bfloat16, float, double, std::complex of both, and types enabled by
/// `enable_scalar`.
template <class T>
concept Scalar = !std::is_const_v<T> && !std::is_volatile_v<T> &&
                 (detail::BuiltinScalar<T> || (enable_scalar<T> && std::is_trivially_copyable_v<T>));

namespace detail {

constexpr std::uint64_t hash_begin = 14695981039346656037u;  // FNV-1a

constexpr std::uint64_t hash_bytes(std::uint64_t h, std::string_view text) {
    for (char c : text) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211u;
    return h;
}

constexpr std::uint64_t hash_value(std::uint64_t h, std::uint64_t value) {
    value *= 0x9e3779b97f4a7c15u;  // spread first: counts differ in few low bits
    return (h ^ value ^ (value >> 29)) * 1099511628211u;
}

/// The compiler's name of a type, the same in every process built by one compiler.
template <class T>
constexpr std::string_view type_name() {
    std::string_view name{__PRETTY_FUNCTION__};
    const auto begin = name.find("T = ");
    if (begin == std::string_view::npos) return name;
    name.remove_prefix(begin + 4);
    if (const auto end = name.find(';'); end != std::string_view::npos) return name.substr(0, end);
    return name.substr(0, name.size() - 1);
}

template <class T>
constexpr std::string_view scalar_name() {
    if constexpr (std::same_as<T, bool>) return "bool";
    else if constexpr (std::same_as<T, float>) return "float";
    else if constexpr (std::same_as<T, double>) return "double";
    else if constexpr (std::same_as<T, float16>) return "float16";
    else if constexpr (std::same_as<T, bfloat16>) return "bfloat16";
    else if constexpr (std::integral<T>) {
        constexpr bool is_signed = std::is_signed_v<T>;
        switch (sizeof(T)) {
            case 1:
                return is_signed ? "int8" : "uint8";
            case 2:
                return is_signed ? "int16" : "uint16";
            case 4:
                return is_signed ? "int32" : "uint32";
            default:
                return is_signed ? "int64" : "uint64";
        }
    } else if constexpr (ComplexScalar<T>) {
        return sizeof(T) == 8 ? "complex<float>" : "complex<double>";
    } else {
        return type_name<T>();
    }
}

/// Equal for equal element types on all ranks, whatever name C++ gives them (long and long long are both int64).
template <class T>
inline constexpr std::uint64_t scalar_id = hash_value(hash_bytes(hash_begin, scalar_name<T>()), sizeof(T));

/// An element type as a value, for what is compiled once for all of them.
struct ScalarInfo {
    std::size_t size;
    std::uint64_t id;
    std::string_view name;
};

template <Scalar T>
inline constexpr ScalarInfo scalar_info{sizeof(T), scalar_id<T>, scalar_name<T>()};

}  // namespace detail
}  // namespace hvd
