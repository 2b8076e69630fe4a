/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * The parts of all classes of ringfire.hpp: failures, views of arguments, owning handles and
 * tensors. Programs include ringfire.hpp.
 */
#ifndef RINGFIRE_CORE_HPP
#define RINGFIRE_CORE_HPP

#include <ringfire/ringfire.h>

#include <cstddef>
#include <exception>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#if !defined(RINGFIRE_RESULTS) && !defined(__cpp_exceptions)
#define RINGFIRE_RESULTS
#endif

namespace ringfire
{

/** A failure of the library: its code, with the library's message as what(). */
class error : public std::runtime_error
{
  public:
    explicit error(rf_result code) : error(code, rf_error_message()) {}
    error(rf_result code, const char *message) : std::runtime_error(message), code_(code) {}
    rf_result code() const noexcept { return code_; }

  private:
    rf_result code_;
};

/** A value, or why there is none: what functions return with RINGFIRE_RESULTS. */
template <class T> class [[nodiscard]] result
{
  public:
    result(T &&value) : value_(std::move(value)) {}
    result(rf_result code, const char *message = rf_error_message())
        : code_(code), message_(message)
    {
    }
    explicit operator bool() const noexcept { return code_ >= 0; }
    rf_result code() const noexcept { return code_; }
    /** The library's message; "" where there is a value. */
    const std::string &message() const noexcept { return message_; }
    /** The value, which there must be. */
    T &operator*() noexcept { return *value_; }
    T *operator->() noexcept { return &*value_; }

  private:
    std::optional<T> value_;
    rf_result code_ = RF_OK;
    std::string message_;
};

/** The result of a function without a value. */
template <> class [[nodiscard]] result<void>
{
  public:
    result(rf_result code) : result(code, code < 0 ? rf_error_message() : "") {}
    result(rf_result code, const char *message) : code_(code), message_(message) {}
    explicit operator bool() const noexcept { return code_ >= 0; }
    rf_result code() const noexcept { return code_; }
    const std::string &message() const noexcept { return message_; }

  private:
    rf_result code_;
    std::string message_;
};

#ifdef RINGFIRE_RESULTS
/** How a T is returned by functions that can fail: with RINGFIRE_RESULTS as result<T>, else as T,
 * and failures are thrown as ringfire::error. */
template <class T> using returned = result<T>;
#else
template <class T> using returned = T;
#endif

/** Some consecutive values of the caller's, such as { 1, 2 } or a std::vector: an argument, which
 * lives as long as the call. */
template <class T> class view
{
  public:
    view() noexcept = default;
    view(const T *data, std::size_t size) noexcept : data_(size > 0 ? data : nullptr), size_(size)
    {
    }
    view(std::initializer_list<T> list) noexcept : view(std::data(list), list.size()) {}
    template <class C,
              class = decltype(static_cast<const T *>(std::data(std::declval<const C &>())))>
    view(const C &container) noexcept : view(std::data(container), std::size(container))
    {
    }
    const T *data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }
    const T *begin() const noexcept { return data_; }
    const T *end() const noexcept { return data_ + size_; }
    const T &operator[](std::size_t i) const noexcept { return data_[i]; }

  private:
    const T *data_ = nullptr;
    std::size_t size_ = 0;
};

/** A text argument: a literal, a std::string, or nullptr where the function has a default. */
class c_string
{
  public:
    c_string(const char *characters) noexcept : characters_(characters) {}
    c_string(const std::string &string) noexcept : characters_(string.c_str()) {}
    operator const char *() const noexcept { return characters_; }

  private:
    const char *characters_;
};

/** A shape: shape(28, 28, 1), or shape() of a scalar. */
template <class... D> rf_shape shape(D... dimensions)
{
    static_assert(sizeof...(D) <= RF_MAX_RANK, "a tensor has at most RF_MAX_RANK dimensions");
    return { static_cast<int32_t>(sizeof...(D)), { static_cast<int64_t>(dimensions)... } };
}

namespace detail
{

#ifdef RINGFIRE_RESULTS
inline result<void> refused(const char *message)
{
    return { RF_ERROR_INVALID_ARGUMENT, message };
}
inline result<void> done(rf_result r)
{
    return r;
}
template <class T> result<T> done(rf_result r, T &&value)
{
    if (r < 0) return r;
    return std::move(value);
}
#else
[[noreturn]] inline void refused(const char *message)
{
    throw error(RF_ERROR_INVALID_ARGUMENT, message);
}
inline void done(rf_result r)
{
    if (r < 0) throw error(r);
}
template <class T> T done(rf_result r, T &&value)
{
    done(r);
    return std::move(value);
}
#endif

/* A function of the program that C functions call, and the exception that it has thrown. */
struct callable {
    virtual ~callable() = default;
    /* In a thread of the library: keeps the exception for the caller of the library. */
    rf_result caught() noexcept
    {
#ifdef __cpp_exceptions
        const std::lock_guard<std::mutex> lock(mutex);
        thrown = std::current_exception();
#endif
        return RF_ERROR_CANCELLED;
    }
    std::exception_ptr take() noexcept
    {
        const std::lock_guard<std::mutex> lock(mutex);
        return std::exchange(thrown, nullptr);
    }

  private:
    std::mutex mutex;
    std::exception_ptr thrown;
};
using callables = std::vector<std::shared_ptr<callable>>;

/* Returns what `work` does; an exception in it is kept. */
template <class F> rf_result guard(callable &called, F &&work) noexcept
{
#ifdef __cpp_exceptions
    try {
        return work();
    } catch (...) {
        return called.caught();
    }
#else
    (void)called;
    return work();
#endif
}

/* The exception of a lambda comes before the failure that the library made of it. */
inline void rethrow(rf_result r, const callables &called)
{
#ifdef __cpp_exceptions
    if (r >= 0) return;
    for (const auto &c : called)
        if (const std::exception_ptr thrown = c->take()) std::rethrow_exception(thrown);
#else
    (void)r;
    (void)called;
#endif
}

} // namespace detail

/**
 * Owns an object of the library, and converts to a pointer to it: every function of the C API takes
 * handles. It can be moved, not copied.
 */
template <class T, void (*destroy)(T **)> class handle
{
  public:
    handle() noexcept = default;
    /** Takes the object over. */
    explicit handle(T *object) noexcept : object_(object) {}
    handle(handle &&other) noexcept
        : object_(std::exchange(other.object_, nullptr)), taken_(other.taken_),
          kept_(std::move(other.kept_))
    {
    }
    handle &operator=(handle &&other) noexcept
    {
        handle moved(std::move(other));
        std::swap(object_, moved.object_);
        std::swap(taken_, moved.taken_);
        std::swap(kept_, moved.kept_);
        return *this;
    }
    ~handle() { reset(); }
    T *get() const noexcept { return object_; }
    operator T *() const noexcept { return object_; }
    /** Destroys the object now. */
    void reset() noexcept
    {
        if (!taken_) destroy(&object_);
        object_ = nullptr;
        taken_ = false;
        kept_.clear();
    }
    /** Gives the object to the caller. */
    T *release() noexcept { return std::exchange(object_, nullptr); }
    /** For functions that take the object over: the handle goes on naming it, and no longer owns
     * it. */
    T *give() const noexcept
    {
        taken_ = true;
        return object_;
    }
    /** Keeps the functions alive that other objects call, as long as this object. */
    void keep(const detail::callables &added)
    {
        kept_.insert(kept_.end(), added.begin(), added.end());
    }
    const detail::callables &callables() const noexcept { return kept_; }

  protected:
    T **out() noexcept { return &object_; }

  private:
    T *object_ = nullptr;
    mutable bool taken_ = false;
    detail::callables kept_;
};

/** A handle of an object that something else owns, and that lives at least as long. */
template <class H, class T> H borrow(T *object)
{
    H named(object);
    (void)named.give();
    return named;
}

/** A dataset as an argument, with the functions of the program that it calls. */
class dataset_argument
{
  public:
    dataset_argument(const rf_dataset *borrowed) noexcept : pointer_(borrowed) {}
    template <class D, class = decltype(std::declval<const D &>().callables())>
    dataset_argument(const D &owner) : pointer_(owner.get()), callables_(owner.callables())
    {
    }
    operator const rf_dataset *() const noexcept { return pointer_; }
    const detail::callables &callables() const noexcept { return callables_; }

  private:
    const rf_dataset *pointer_;
    detail::callables callables_;
};

/** A symbolic tensor of the step that is being traced. A default one is "none". */
class tensor
{
  public:
    tensor() noexcept = default;
    tensor(rf_trace *trace, rf_tensor id) noexcept : trace_(trace), id_(id) {}
    operator rf_tensor() const noexcept { return id_; }
    rf_trace *trace() const noexcept { return trace_; }
    rf_shape shape() const { return rf_tensor_shape(trace_, id_); }
    rf_dtype dtype() const { return rf_tensor_dtype(trace_, id_); }

  private:
    rf_trace *trace_ = nullptr;
    rf_tensor id_ = {};
};

/** An ::rf_array of the library's, which it frees. */
class array
{
  public:
    array() noexcept = default;
    explicit array(const rf_array &owned) noexcept : array_(owned) {}
    array(array &&other) noexcept : array_(std::exchange(other.array_, rf_array{})) {}
    array &operator=(array &&other) noexcept
    {
        std::swap(array_, other.array_);
        return *this;
    }
    ~array() { rf_array_free(&array_); }
    const rf_array &get() const noexcept { return array_; }
    rf_shape shape() const noexcept { return array_.shape; }
    rf_dtype dtype() const noexcept { return array_.dtype; }
    /** The elements, which are of type T. */
    template <class T> view<T> values() const
    {
        return { static_cast<const T *>(array_.data),
                 static_cast<std::size_t>(rf_shape_count(array_.shape)) };
    }

  private:
    rf_array array_ = {};
};

/** The values of a fit by epoch. */
class history
{
  public:
    history() noexcept = default;
    explicit history(const rf_history &owned) noexcept : history_(owned) {}
    history(history &&other) noexcept : history_(std::exchange(other.history_, rf_history{})) {}
    history &operator=(history &&other) noexcept
    {
        std::swap(history_, other.history_);
        return *this;
    }
    ~history() { rf_history_free(&history_); }
    std::size_t size() const noexcept { return history_.num_epochs; }
    const rf_logs &operator[](std::size_t epoch) const noexcept { return history_.epochs[epoch]; }
    /** A value of an epoch by its name; none where logs do not have it. */
    std::optional<double> get(std::size_t epoch, c_string name) const
    {
        double value;
        if (epoch < size() && rf_logs_get(&history_.epochs[epoch], name, &value)) return value;
        return std::nullopt;
    }

  private:
    rf_history history_ = {};
};

namespace detail
{

inline rf_trace *trace_of() noexcept
{
    return nullptr;
}
/* The trace of the first operand that is a tensor. */
template <class... A> rf_trace *trace_of(const tensor &first, const A &...others) noexcept
{
    return first.trace() ? first.trace() : trace_of(others...);
}
template <class... A> rf_trace *trace_of(const view<tensor> &first, const A &...others) noexcept
{
    return first.size() > 0 && first[0].trace() ? first[0].trace() : trace_of(others...);
}

inline std::vector<rf_tensor> ids(const view<tensor> &tensors)
{
    return { tensors.begin(), tensors.end() };
}
template <class T> std::vector<T *> pointers(const view<T *> &objects)
{
    return { objects.begin(), objects.end() };
}
inline std::vector<const rf_dataset *> datasets(const view<dataset_argument> &given)
{
    return { given.begin(), given.end() };
}
inline std::string owned_string(char *text)
{
    std::string string = text ? text : "";
    rf_string_free(text);
    return string;
}

} // namespace detail
} // namespace ringfire
#endif
