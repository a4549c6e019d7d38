// How an object of the user's becomes bytes of the job's state, and is made from them again.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <hvd/core/explain.hpp>
#include <hvd/core/memory.hpp>
#include <hvd/core/serialize.hpp>
#include <hvd/core/tensor_list.hpp>
#include <hvd/device/host_copy.hpp>

namespace hvd::detail {

/// The bytes of an object in pieces, in order: those of its tensors where they lie, others kept here.
class StateChunks {
public:
    void refer(const void* data, std::size_t bytes) {
        if (bytes > 0) chunks_.push_back({static_cast<const std::byte*>(data), bytes});
        bytes_ += bytes;
    }
    void keep(std::vector<std::byte> bytes) {
        kept_.push_back(std::move(bytes));
        refer(kept_.back().data(), kept_.back().size());
    }
    std::size_t bytes() const { return bytes_; }
    const std::vector<std::span<const std::byte>>& chunks() const { return chunks_; }

private:
    std::vector<std::span<const std::byte>> chunks_;
    std::vector<std::vector<std::byte>> kept_;
    std::size_t bytes_ = 0;
};

/// A part of a saved object.
struct SavedPiece {
    std::size_t from, bytes;
    const std::byte* data;
};

/// Reads the bytes of a saved object in order, from wherever its pieces lie. Throws UsageError when there are too few.
class SavedReader {
public:
    SavedReader(const std::string& name, std::span<const SavedPiece> pieces, std::size_t bytes)
        : name_{&name}, pieces_{pieces}, left_{bytes} {}

    std::size_t left() const { return left_; }
    void take(void* to, std::size_t bytes) {
        if (bytes > left_) wrong();
        auto* out = static_cast<std::byte*>(to);
        left_ -= bytes;
        while (bytes > 0) {
            const SavedPiece& piece = pieces_.front();
            const std::size_t n = piece.bytes - at_ < bytes ? piece.bytes - at_ : bytes;
            std::memcpy(out, piece.data + at_, n);
            out += n;
            at_ += n;
            bytes -= n;
            if (at_ == piece.bytes) {
                pieces_ = pieces_.subspan(1);
                at_ = 0;
            }
        }
    }
    [[noreturn]] void wrong() const {
        throw UsageError{"hvd: state '" + *name_ +
                         "' was saved from an object of another form; let the program construct on every start what it "
                         "constructed when the state was saved, or give the object another name"};
    }

private:
    const std::string* name_;
    std::span<const SavedPiece> pieces_;
    std::size_t left_, at_ = 0;
};

template <class X>
concept StateTensor = Tensor<X> && !HasSerialize<X>;

template <class X>
consteval bool is_state() {
    return StateTensor<X> || TensorList<X> || is_serializable<std::remove_cvref_t<X>>();
}

template <class X>
consteval bool explain_state() {
    static_assert(is_state<X>(),
                  "hvd: this object cannot be state of the job; give its class template <class Archive> void "
                  "serialize(Archive& a) { a(member, ...); }, or use tensors, numbers, strings and vectors of them");
    return is_state<X>();
}

template <class X>
void save_tensor(StateChunks& chunks, X& tensor) {
    if constexpr (Resizable<X>) {
        const std::vector<std::size_t> shape = shape_of(tensor);
        chunks.keep(to_bytes(std::vector<std::uint64_t>(shape.begin(), shape.end())));
    }
    const std::size_t bytes = size_of(tensor) * sizeof(tensor_value_t<X>);
    if constexpr (std::same_as<memory_space_t<std::remove_cvref_t<X>>, DeviceMemory>) {
        const device::HostCopy<device::has_host_copy> copy{bytes};
        copy.fetch(data_of(tensor));
        const auto* begin = static_cast<const std::byte*>(copy.data());
        chunks.keep({begin, begin + bytes});
    } else {
        chunks.refer(data_of(tensor), bytes);
    }
}

template <class X>
void load_tensor(SavedReader& reader, X& tensor, bool is_last) {
    if constexpr (Resizable<X>) {
        std::uint64_t count = 0;
        reader.take(&count, sizeof count);
        if (count > reader.left() / sizeof(std::uint64_t)) reader.wrong();
        std::vector<std::uint64_t> extents(static_cast<std::size_t>(count));
        reader.take(extents.data(), extents.size() * sizeof(std::uint64_t));
        std::size_t elements = 1;
        for (const std::uint64_t extent : extents) {
            if (extent != 0 && elements > reader.left() / extent) reader.wrong();
            elements *= static_cast<std::size_t>(extent);
        }
        if (elements > reader.left() / sizeof(tensor_value_t<X>)) reader.wrong();
        const std::vector<std::size_t> shape(extents.begin(), extents.end());
        if (shape != shape_of(tensor)) TensorTraits<X>::resize(tensor, shape);
    }
    const std::size_t bytes = size_of(tensor) * sizeof(tensor_value_t<X>);
    if (is_last && bytes != reader.left()) reader.wrong();
    if constexpr (std::same_as<memory_space_t<std::remove_cvref_t<X>>, DeviceMemory>) {
        const device::HostCopy<device::has_host_copy> copy{bytes};
        reader.take(copy.data(), bytes);
        copy.give_back(data_of(tensor));
    } else {
        reader.take(data_of(tensor), bytes);
    }
}

/// An object of the state, whose class is forgotten.
struct StateObject {
    std::function<void(StateChunks&)> save;
    std::function<void(SavedReader&)> load;
};

/// A list that can be given tensors, without elements yet.
template <class List>
concept GrowableList = TensorRange<List> && std::default_initializable<std::ranges::range_value_t<List>> &&
    requires(List& list) {
    list.resize(std::size_t{});
};

/// Lists of tensors, of which `get` returns one.
template <class Get>
StateObject tensor_list_object(Get get) {
    return {[get](StateChunks& chunks) {
                auto&& list = get();
                chunks.keep(to_bytes(std::uint64_t{count_tensors(list)}));
                for_each_tensor(list, [&](auto& tensor, std::size_t) { save_tensor(chunks, tensor); });
            },
            [get](SavedReader& reader) {
                auto&& list = get();
                std::uint64_t count = 0;
                reader.take(&count, sizeof count);
                if (count != count_tensors(list)) {
                    // Optimizers make their state when they first step, so that the list may be empty until then.
                    if constexpr (GrowableList<decltype(list)>) {
                        if (count > reader.left()) reader.wrong();
                        list.resize(static_cast<std::size_t>(count));
                    } else {
                        reader.wrong();
                    }
                }
                for_each_tensor(list,
                                [&](auto& tensor, std::size_t i) { load_tensor(reader, tensor, i + 1 == count); });
                if (reader.left() > 0) reader.wrong();
            }};
}

/// `object` is referred to.
template <class X>
StateObject state_object(X& object) {
    if constexpr (StateTensor<X>) {
        return {[&object](StateChunks& chunks) { save_tensor(chunks, object); },
                [&object](SavedReader& reader) { load_tensor(reader, object, true); }};
    } else if constexpr (TensorList<X>) {
        return tensor_list_object([&object]() -> X& { return object; });
    } else if constexpr (is_plain<X>()) {
        return {[&object](StateChunks& chunks) { chunks.refer(&object, sizeof object); },
                [&object](SavedReader& reader) {
                    if (reader.left() != sizeof object) reader.wrong();
                    reader.take(&object, sizeof object);
                }};
    } else {
        return {[&object](StateChunks& chunks) { chunks.keep(to_bytes(object)); },
                [&object](SavedReader& reader) {
                    std::vector<std::byte> bytes(reader.left());
                    reader.take(bytes.data(), bytes.size());
                    from_bytes(bytes, object);
                }};
    }
}

}  // namespace hvd::detail
