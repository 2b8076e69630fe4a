/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * The library for C++17 and later: `#include <ringfire/ringfire.hpp>`, nothing else to link.
 *
 *  - A class owns each object, such as ringfire::strategy for an ::rf_strategy. It is made by a
 *    static function (`strategy::mirrored()`), moves, and destroys the object. Its methods are the
 *    C functions of the same name (`model.summary()` is rf_model_summary()), whose comments hold
 *    here. A handle converts to the pointer, so that every other C function takes it, too.
 *  - A failure is thrown as ringfire::error. With the macro RINGFIRE_RESULTS, and where exceptions
 *    are switched off, functions return ringfire::result instead.
 *  - Params structs have setters: `dense_params().units(10)`.
 *  - Steps, models, datasets and callbacks take lambdas. An exception in one comes out of the call
 *    that ran it: strategy::run(), model::fit(), a loop over a dataset.
 *  - In a step tensors have operators, and each operation is a function: `relu(matmul(x, w) + b)`.
 *    Failures stick to the trace, as in C, and the run reports them.
 *
 * @code
 *     auto strategy = ringfire::strategy::mirrored();
 *     auto model = ringfire::model::sequential(
 *         strategy, { ringfire::layer::flatten(),
 *                     ringfire::layer::dense(ringfire::dense_params().units(10)) });
 * @endcode
 */
#ifndef RINGFIRE_RINGFIRE_HPP
#define RINGFIRE_RINGFIRE_HPP

#include <ringfire/api.hpp>
#include <ringfire/core.hpp>

#include <array>
#include <cstring>

namespace ringfire
{

/* ---- operators of tensors ---- */

/** A constant in the step of another tensor. */
inline tensor constant_like(const tensor &other, float value)
{
    return { other.trace(), rf_constant(other.trace(), value) };
}

#define RINGFIRE_OPERATOR(op, function)                                                            \
    inline tensor operator op(const tensor &a, const tensor &b)                                    \
    {                                                                                              \
        return function(a, b);                                                                     \
    }                                                                                              \
    inline tensor operator op(const tensor &a, float b)                                            \
    {                                                                                              \
        return a op constant_like(a, b);                                                           \
    }                                                                                              \
    inline tensor operator op(float a, const tensor &b)                                            \
    {                                                                                              \
        return constant_like(b, a) op b;                                                           \
    }                                                                                              \
    inline tensor &operator op##=(tensor &a, const tensor &b)                                      \
    {                                                                                              \
        return a = a op b;                                                                         \
    }                                                                                              \
    inline tensor &operator op##=(tensor &a, float b)                                              \
    {                                                                                              \
        return a = a op b;                                                                         \
    }
RINGFIRE_OPERATOR(+, add)
RINGFIRE_OPERATOR(-, subtract)
RINGFIRE_OPERATOR(*, multiply)
RINGFIRE_OPERATOR(/, divide)
#undef RINGFIRE_OPERATOR
inline tensor operator-(const tensor &a)
{
    return negative(a);
}

/** rf_transpose(), with as many axes as x has. */
inline tensor transpose(const tensor &x, view<int32_t> perm)
{
    rf_trace *t = x.trace();
    const rf_shape shape = x.shape();
    if (perm.size() != static_cast<std::size_t>(shape.rank)) {
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "transpose(): %zu axes of a tensor of %d",
                            perm.size(), static_cast<int>(shape.rank));
        return { t, rf_tensor{} };
    }
    return { t, rf_transpose(t, x, perm.data()) };
}

/** d loss / d targets[i] for each target: rf_gradients(). */
inline std::vector<tensor> gradients(const tensor &loss, view<tensor> targets)
{
    std::vector<rf_tensor> made(targets.size());
    (void)rf_gradients(loss.trace(), loss, detail::ids(targets).data(),
                       static_cast<uint32_t>(targets.size()), made.data());
    std::vector<tensor> out;
    for (const rf_tensor &g : made) out.emplace_back(loss.trace(), g);
    return out;
}

/** The parts of x, of one size each, along an axis: rf_split_tensor(). */
inline std::vector<tensor> split(const tensor &x, int32_t axis, uint32_t num_parts)
{
    std::vector<rf_tensor> made(num_parts);
    (void)rf_split_tensor(x.trace(), x, axis, num_parts, made.data());
    std::vector<tensor> out;
    for (const rf_tensor &part : made) out.emplace_back(x.trace(), part);
    return out;
}

/* ---- values ---- */

/** The results of a run, valid until the next but one run of the function. */
class results
{
  public:
    const rf_per_replica *operator[](std::size_t i) const noexcept { return values_[i]; }
    rf_per_replica **out() noexcept { return values_; }

  private:
    rf_per_replica *values_[RF_MAX_COMPONENTS] = {};
};

/* ---- steps ---- */

/** The components of the batch in a step. */
class inputs
{
  public:
    inputs(rf_trace *trace, const rf_tensor *in) noexcept : trace_(trace), in_(in) {}
    tensor operator[](std::size_t i) const noexcept { return { trace_, in_[i] }; }
    rf_trace *trace() const noexcept { return trace_; }

  private:
    rf_trace *trace_;
    const rf_tensor *in_;
};

namespace detail
{

/* The exception of a callback, which the thread that called the library throws again. */
inline std::exception_ptr &pending() noexcept
{
    thread_local std::exception_ptr thrown;
    return thrown;
}

template <class T> struct outputs {
    static constexpr uint32_t count = 1;
    static void put(const tensor &value, rf_tensor *out) { out[0] = value; }
};
template <> struct outputs<void> {
    static constexpr uint32_t count = 0;
};
template <std::size_t N> struct outputs<std::array<tensor, N>> {
    static_assert(N <= RF_MAX_COMPONENTS, "a step has at most RF_MAX_COMPONENTS results");
    static constexpr uint32_t count = N;
    static void put(const std::array<tensor, N> &values, rf_tensor *out)
    {
        for (std::size_t i = 0; i < N; i++) out[i] = values[i];
    }
};

/* The trace fails with the message of an exception, which is thrown again by the caller's run. */
template <class F> rf_result traced(rf_trace *t, callable &called, F &&work) noexcept
{
#ifdef __cpp_exceptions
    try {
        work();
        return rf_trace_status(t);
    } catch (const std::exception &e) {
        (void)rf_trace_fail(t, RF_ERROR_CANCELLED, "%s", e.what());
        return called.caught();
    } catch (...) {
        (void)rf_trace_fail(t, RF_ERROR_CANCELLED, "an exception in a function of the program");
        return called.caught();
    }
#else
    (void)called;
    work();
    return rf_trace_status(t);
#endif
}

template <class F> struct step : callable {
    using made = std::invoke_result_t<F &, const inputs &>;
    explicit step(F f) : function(std::move(f)) {}
    static rf_result call(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user) noexcept
    {
        step *self = static_cast<step *>(user);
        return traced(t, *self, [&] {
            const inputs given(t, in);
            if constexpr (std::is_void_v<made>)
                self->function(given);
            else
                outputs<made>::put(self->function(given), out);
        });
    }
    F function;
};

template <class F> struct forward : callable {
    explicit forward(F f) : function(std::move(f)) {}
    static rf_tensor call(rf_trace *t, rf_model *model, rf_tensor x, rf_mode mode,
                          void *user) noexcept
    {
        forward *self = static_cast<forward *>(user);
        rf_tensor made = {};
        (void)traced(t, *self, [&] { made = self->function(t, model, tensor(t, x), mode); });
        return made;
    }
    F function;
};

template <class F> struct map : callable {
    explicit map(F f) : function(std::move(f)) {}
    static rf_result call(void *user, const rf_element *in, rf_element *out) noexcept
    {
        map *self = static_cast<map *>(user);
        return guard(*self, [&] {
            self->function(*in, *out);
            return RF_OK;
        });
    }
    F function;
};

template <class F> struct filter : callable {
    explicit filter(F f) : function(std::move(f)) {}
    static rf_result call(void *user, const rf_element *in, bool *keep) noexcept
    {
        filter *self = static_cast<filter *>(user);
        return guard(*self, [&] {
            *keep = self->function(*in);
            return RF_OK;
        });
    }
    F function;
};

template <class F> struct generator : callable {
    explicit generator(F f) : function(std::move(f)) {}
    static rf_result call(void *user, uint64_t index, rf_element *out) noexcept
    {
        generator *self = static_cast<generator *>(user);
        return guard(*self, [&] { return self->function(index, *out) ? RF_OK : RF_END; });
    }
    F function;
};

/* Functions that a class may have, each as a callback or NULL. */
#define RINGFIRE_CALLBACK(name, with_logs)                                                         \
    template <class C, class = void> struct has_##name : std::false_type {                         \
    };                                                                                             \
    template <class C> struct has_##name<C, std::void_t<decltype(&C::name)>> : std::true_type {    \
    };
RINGFIRE_CALLBACK(on_train_begin, )
RINGFIRE_CALLBACK(on_train_end, )
RINGFIRE_CALLBACK(on_epoch_begin, )
RINGFIRE_CALLBACK(on_epoch_end, )
RINGFIRE_CALLBACK(on_batch_begin, )
RINGFIRE_CALLBACK(on_batch_end, )
#undef RINGFIRE_CALLBACK

template <class C, class F> rf_result notify(void *user, F &&call) noexcept
{
#ifdef __cpp_exceptions
    try {
        call(*static_cast<C *>(user));
        return RF_OK;
    } catch (...) {
        pending() = std::current_exception();
        return RF_ERROR_CANCELLED;
    }
#else
    call(*static_cast<C *>(user));
    return RF_OK;
#endif
}

template <class C> rf_callback_fns callback_functions()
{
    rf_callback_fns fns = {};
#define RINGFIRE_BEGIN(name)                                                                       \
    if constexpr (has_##name<C>::value)                                                            \
    fns.name = [](void *user, rf_fit_state *state) {                                               \
        return notify<C>(user, [&](C &object) { object.name(*state); });                           \
    }
#define RINGFIRE_END(name)                                                                         \
    if constexpr (has_##name<C>::value)                                                            \
    fns.name = [](void *user, rf_fit_state *state, const rf_logs *logs) {                          \
        return notify<C>(user, [&](C &object) { object.name(*state, *logs); });                    \
    }
    RINGFIRE_BEGIN(on_train_begin);
    RINGFIRE_END(on_train_end);
    RINGFIRE_BEGIN(on_epoch_begin);
    RINGFIRE_END(on_epoch_end);
    RINGFIRE_BEGIN(on_batch_begin);
    RINGFIRE_END(on_batch_end);
#undef RINGFIRE_BEGIN
#undef RINGFIRE_END
    fns.destroy = [](void *user) { delete static_cast<C *>(user); };
    return fns;
}

inline void rethrow_pending(rf_result r)
{
#ifdef __cpp_exceptions
    const std::exception_ptr thrown = std::exchange(pending(), nullptr);
    if (r < 0 && thrown) std::rethrow_exception(thrown);
#else
    (void)r;
#endif
}

} // namespace detail

template <class F>
returned<function> function::create(rf_strategy *strategy, F step, rf_function_params params)
{
    auto kept = std::make_shared<detail::step<F>>(std::move(step));
    params.step = detail::step<F>::call;
    params.user = kept.get();
    params.num_outputs = detail::outputs<typename detail::step<F>::made>::count;
    function made;
    const rf_result r = rf_function_create(strategy, &params, made.out());
    made.keep({ kept });
    return detail::done(r, std::move(made));
}

inline returned<results> strategy::run(const function &function, const rf_element &batch) const
{
    results made;
    const rf_result r = rf_strategy_run(get(), function, &batch, made.out());
    detail::rethrow(r, function.callables());
    return detail::done(r, std::move(made));
}

inline returned<float> strategy::reduce(rf_reduce_op op, const rf_per_replica *value) const
{
    float made = 0;
    const rf_result r = rf_strategy_reduce(get(), op, value, &made);
    return detail::done(r, std::move(made));
}

/* ---- models ---- */

inline returned<model> model::sequential(rf_strategy *strategy, view<ringfire::layer> layers,
                                         const rf_shape &input_shape)
{
    std::vector<rf_layer *> given;
    for (const ringfire::layer &l : layers) given.push_back(l.give());
    model made;
    const rf_result r =
        rf_model_create_sequential(strategy, given.data(), static_cast<uint32_t>(given.size()),
                                   input_shape.rank > 0 ? &input_shape : nullptr, made.out());
    return detail::done(r, std::move(made));
}

template <class F> returned<model> model::create(rf_strategy *strategy, F forward)
{
    auto kept = std::make_shared<detail::forward<F>>(std::move(forward));
    model made;
    const rf_result r =
        rf_model_create_custom(strategy, detail::forward<F>::call, kept.get(), made.out());
    made.keep({ kept });
    return detail::done(r, std::move(made));
}

inline returned<void> model::add_layer(const ringfire::layer &layer) const
{
    return detail::done(rf_model_add_layer(get(), layer.give()));
}

inline returned<history> model::fit(const rf_fit_params &params) const
{
    rf_history made = {};
    const rf_result r = rf_model_fit(get(), &params, &made);
    history owned(made);
    detail::rethrow_pending(r);
    detail::rethrow(r, callables());
    return detail::done(r, std::move(owned));
}

inline returned<array> model::predict(const rf_dataset *data) const
{
    rf_array made = {};
    const rf_result r = rf_model_predict(get(), data, &made);
    detail::rethrow(r, callables());
    return detail::done(r, array(made));
}

inline returned<std::vector<array>> model::generate(const rf_generate_params &params) const
{
    std::vector<rf_array> made(params.num_prompts > 0 ? params.num_prompts : 1);
    const rf_result r = rf_model_generate(get(), &params, made.data());
    std::vector<array> texts;
    for (uint32_t i = 0; r >= 0 && i < params.num_prompts; i++) texts.emplace_back(made[i]);
    return detail::done(r, std::move(texts));
}

inline ringfire::model pretrained::model() const
{
    return borrow<ringfire::model>(rf_pretrained_model(get()));
}

inline returned<layer> layer::dense(int32_t units, rf_activation activation)
{
    return dense(dense_params().units(units).activation(activation));
}

inline returned<layer> layer::conv2d(int32_t filters, int32_t kernel_size, rf_activation activation)
{
    return conv2d(
        conv2d_layer_params().filters(filters).kernel_size(kernel_size).activation(activation));
}

inline returned<optimizer> optimizer::create(rf_strategy *strategy, rf_optimizer_kind kind,
                                             double learning_rate)
{
    return create(strategy, optimizer_params().kind(kind).learning_rate(learning_rate));
}

inline returned<metric> metric::create(rf_strategy *strategy, rf_metric_kind kind, c_string name)
{
    return create(strategy, metric_params().kind(kind).name(name));
}

inline returned<double> metric::take() const
{
    double made = 0;
    rf_result r = rf_metric_result(get(), &made);
    if (r >= 0) r = rf_metric_reset(get());
    return detail::done(r, std::move(made));
}

inline returned<std::string> tokenizer::decode(view<int32_t> tokens) const
{
    char *text = nullptr;
    std::size_t size = 0;
    const rf_result r = rf_tokenizer_decode(get(), tokens.data(), tokens.size(), &text, &size);
    std::string made = text ? std::string(text, size) : std::string();
    rf_string_free(text);
    return detail::done(r, std::move(made));
}

inline returned<std::string> text_stream::add(int32_t token) const
{
    const char *text = "";
    std::size_t size = 0;
    const rf_result r = rf_text_stream_add(get(), token, &text, &size);
    return detail::done(r, std::string(text, size));
}

inline returned<std::string> text_stream::finish() const
{
    const char *text = "";
    std::size_t size = 0;
    const rf_result r = rf_text_stream_finish(get(), &text, &size);
    return detail::done(r, std::string(text, size));
}

inline returned<std::string> chat_template::apply(const rf_chat &chat,
                                                  const rf_chat_apply_params &params) const
{
    char *text = nullptr;
    const rf_result r = rf_chat_template_apply(get(), &chat, &params, &text, nullptr);
    return detail::done(r, detail::owned_string(text));
}

inline returned<model> model_builder::finish(view<rf_symbol> outputs)
{
    model made;
    const rf_result r = rf_model_builder_finish(
        out(), outputs.data(), static_cast<uint32_t>(outputs.size()), nullptr, made.out());
    return detail::done(r, std::move(made));
}

inline returned<std::vector<float>> variable::read() const
{
    const int64_t count = rf_shape_count(shape());
    std::vector<float> values(count > 0 ? static_cast<std::size_t>(count) : 0);
    const rf_result r = rf_variable_read(get(), values.data());
    return detail::done(r, std::move(values));
}

inline returned<void> variable::assign(view<float> values) const
{
    if (static_cast<int64_t>(values.size()) != rf_shape_count(shape()))
        return detail::refused("variable::assign(): the number of values is not that of the shape");
    return detail::done(rf_variable_assign(get(), values.data()));
}

template <class C> returned<callback> callback::create(C object)
{
    const rf_callback_fns fns = detail::callback_functions<C>();
    auto owned = std::make_unique<C>(std::move(object));
    callback made;
    const rf_result r = rf_callback_create(&fns, owned.get(), made.out());
    if (r >= 0) (void)owned.release();
    return detail::done(r, std::move(made));
}

/* ---- data ---- */

/**
 * The elements of one pass over a dataset, for a range-based loop. An element is valid until the
 * next one. With RINGFIRE_RESULTS the loop ends at a failure, which status() tells.
 */
class pass
{
  public:
    explicit pass(const dataset &data, uint64_t epoch)
        : status_(rf_iterator_create(data, epoch, iterator_.out()))
    {
        iterator_.keep(data.callables());
        check();
    }
    class cursor
    {
      public:
        explicit cursor(pass *of) noexcept : of_(of) {}
        const rf_element &operator*() const noexcept { return *of_->element_; }
        cursor &operator++()
        {
            if (!of_->advance()) of_ = nullptr;
            return *this;
        }
        bool operator!=(const cursor &other) const noexcept { return of_ != other.of_; }

      private:
        pass *of_;
    };
    cursor begin() { return cursor(status_ == RF_OK && advance() ? this : nullptr); }
    cursor end() noexcept { return cursor(nullptr); }
    /** RF_END after the last element, or the failure that ended the loop. */
    rf_result status() const noexcept { return status_; }
    /** For checkpoints, and to save the position. */
    rf_iterator *iterator() const noexcept { return iterator_; }

  private:
    bool advance()
    {
        status_ = rf_iterator_next(iterator_, &element_);
        check();
        return status_ == RF_OK;
    }
    void check()
    {
#ifndef RINGFIRE_RESULTS
        detail::rethrow(status_, iterator_.callables());
        detail::done(status_);
#endif
    }

    ringfire::iterator iterator_;
    const rf_element *element_ = nullptr;
    rf_result status_;
};

inline returned<const rf_element *> iterator::next() const
{
    const rf_element *element = nullptr;
    const rf_result r = rf_iterator_next(get(), &element);
    detail::rethrow(r, callables());
    return detail::done(r, r == RF_END ? nullptr : std::move(element));
}

inline returned<void> checkpoint::add_iterator(c_string name, ringfire::iterator &position,
                                               const rf_dataset *data) const
{
    return detail::done(rf_checkpoint_add_iterator(get(), name, position.out(), data));
}

inline returned<void> checkpoint::add_counter(c_string name, uint64_t &counter) const
{
    return detail::done(rf_checkpoint_add_counter(get(), name, &counter));
}

inline returned<std::optional<uint64_t>>
checkpoint_manager::restore(const rf_restore_params &params) const
{
    uint64_t number = 0;
    const rf_result r = rf_checkpoint_manager_restore(get(), &params, &number);
    if (r == RF_ERROR_NOT_FOUND) return std::optional<uint64_t>();
    return detail::done(r, std::optional<uint64_t>(number));
}

inline std::vector<tensor> device_data::take(const tensor &rows) const
{
    std::array<rf_tensor, RF_MAX_COMPONENTS> made = {};
    (void)rf_device_data_take(rows.trace(), get(), rows, made.data());
    std::vector<tensor> out;
    for (uint32_t i = 0; i < num_components(); i++) out.emplace_back(rows.trace(), made[i]);
    return out;
}

inline ringfire::pass dataset::pass(uint64_t epoch) const
{
    return ringfire::pass(*this, epoch);
}

namespace detail
{

/* A dataset that calls `kept`, and what the one below it calls. */
inline returned<dataset> calling(rf_result r, dataset &&made, std::shared_ptr<callable> kept,
                                 const detail::callables &below)
{
    made.keep({ std::move(kept) });
    made.keep(below);
    return done(r, std::move(made));
}

} // namespace detail

template <class F> returned<dataset> dataset::map(const rf_element_spec &spec, F fn) const
{
    auto kept = std::make_shared<detail::map<F>>(std::move(fn));
    dataset made;
    const rf_result r = rf_dataset_map(get(), detail::map<F>::call, kept.get(), &spec, made.out());
    return detail::calling(r, std::move(made), kept, callables());
}

template <class F> returned<dataset> dataset::filter(F fn) const
{
    auto kept = std::make_shared<detail::filter<F>>(std::move(fn));
    dataset made;
    const rf_result r = rf_dataset_filter(get(), detail::filter<F>::call, kept.get(), made.out());
    return detail::calling(r, std::move(made), kept, callables());
}

template <class F>
returned<dataset> dataset::from_generator(const rf_element_spec &spec, F generate,
                                          uint64_t cardinality)
{
    auto kept = std::make_shared<detail::generator<F>>(std::move(generate));
    rf_dataset_generator_params params = {};
    params.generate = detail::generator<F>::call;
    params.user = kept.get();
    params.spec = spec;
    params.cardinality = cardinality;
    dataset made;
    const rf_result r = rf_dataset_from_generator(&params, made.out());
    return detail::calling(r, std::move(made), kept, {});
}

} // namespace ringfire
#endif
