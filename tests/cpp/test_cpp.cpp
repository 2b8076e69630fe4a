/* SPDX-License-Identifier: Apache-2.0 */
/* <ringfire/ringfire.hpp>: what is thrown, who owns what, lambdas in every place, operators. */
#include <ringfire/ringfire.hpp>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>

namespace rf = ringfire;

static int failures;

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (condition) break;                                                                                          \
        std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                   \
        failures++;                                                                                                    \
    } while (0)

/* The message of what `work` throws; "" where it throws nothing. */
static std::string thrown(const std::function<void()> &work, rf_result *code = nullptr)
{
    try {
        work();
    } catch (const rf::error &e) {
        if (code) *code = e.code();
        return e.what();
    } catch (const std::exception &e) {
        if (code) *code = RF_OK;
        return e.what();
    }
    return "";
}

struct mistake : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/* A batch of four numbers. */
struct numbers {
    float values[4] = { 1, -2, 3, 4 };
    rf_element batch = {};
    numbers()
    {
        batch.num_components = 1;
        batch.component[0] = { RF_F32, rf::shape(4), values };
    }
};

static rf::dataset counted(uint64_t count)
{
    rf_element_spec spec = {};
    spec.num_components = 1;
    spec.dtype[0] = RF_F32;
    spec.shape[0] = rf::shape(1);
    return rf::dataset::from_generator(spec, [count](uint64_t index, rf_element &out) {
        *static_cast<float *>(out.component[0].data) = static_cast<float>(index);
        return index < count;
    });
}

static float first(const rf_element &element)
{
    return *static_cast<const float *>(element.component[0].data);
}

static void errors(rf::strategy &)
{
    rf_result code;
    const std::string message =
        thrown([] { rf::strategy::mirrored(rf::mirrored_params().devices("no such device")); }, &code);
    CHECK(code == RF_ERROR_NOT_FOUND && message.find("no such device") != std::string::npos);
    CHECK(thrown([] { rf::dataset::from_idx("/nowhere/images", std::string("/nowhere/labels")); }, &code)
              .find("/nowhere/images") != std::string::npos);
    CHECK(code == RF_ERROR_NOT_FOUND);
}

static void tensors(rf::strategy &strategy)
{
    const auto f = rf::function::create(strategy, [](const rf::inputs &in) {
        const rf::tensor x = in[0], y = 2 * x + 1, square = x * x;
        rf::tensor z = (y - x) / 2;
        z += 1;
        const rf::tensor pair = rf::stack({ x, y }, 1), turned = transpose(pair, { 1, 0 });
        return std::array<rf::tensor, 4>{ -z, split(pair, 1, 2)[1], gradients(reduce_sum(square, {}), { x })[0],
                                          slice(turned, { 1, 0 }, { 2, 4 }) };
    });
    numbers n;
    const rf::results results = strategy.run(f, n.batch);
    const rf::array z = strategy.gather(results[0]), y = strategy.gather(results[1]),
                    gradient = strategy.gather(results[2]);
    for (std::size_t i = 0; i < 4; i++) {
        const float x = n.values[i];
        CHECK(z.values<float>()[i] == -((x + 1) / 2 + 1));
        CHECK(y.values<float>()[i] == 2 * x + 1);
        CHECK(gradient.values<float>()[i] == 2 * x);
    }
    const auto wrong = rf::function::create(strategy, [](const rf::inputs &in) { return transpose(in[0], { 1, 0 }); });
    CHECK(thrown([&] { strategy.run(wrong, n.batch); }).find("transpose(): 2 axes") != std::string::npos);
}

static void steps(rf::strategy &strategy)
{
    numbers n;
    bool bad = true;
    const auto f = rf::function::create(strategy, [&](const rf::inputs &in) {
        if (bad) throw mistake("the step's own");
        return reduce_sum(in[0], {});
    });
    bool same = false;
    try {
        strategy.run(f, n.batch);
    } catch (const mistake &e) {
        same = std::string(e.what()) == "the step's own";
    }
    CHECK(same);
    bad = false;
    CHECK(strategy.reduce(RF_REDUCE_SUM, strategy.run(f, n.batch)[0]) == 6);
    const auto none = rf::function::create(strategy, [](const rf::inputs &) {});
    CHECK(strategy.run(none, n.batch)[0] == nullptr);
}

static void variables(rf::strategy &strategy)
{
    const auto v = rf::variable::create(strategy, rf::variable_params().shape(rf::shape(2)).not_trainable(true));
    v.assign({ 3, 4 });
    CHECK((v.read() == std::vector<float>{ 3, 4 }));
    rf_result code;
    (void)thrown([&] { v.assign({ 1 }); }, &code);
    CHECK(code == RF_ERROR_INVALID_ARGUMENT);
    const auto f = rf::function::create(
        strategy, [&](const rf::inputs &in) { v.update(v.in(in.trace()) * 2, RF_AGGREGATE_FIRST_REPLICA); });
    numbers n;
    strategy.run(f, n.batch);
    CHECK((v.read() == std::vector<float>{ 6, 8 }));
}

static void datasets(rf::strategy &)
{
    rf_element_spec spec = counted(1).spec();
    /* The handles of the steps below, and their functions, are gone when elements are made. */
    const rf::dataset data = counted(10)
                                 .map(spec,
                                      [scale = 2.0f](const rf_element &in, rf_element &out) {
                                          *static_cast<float *>(out.component[0].data) = scale * first(in);
                                      })
                                 .filter([](const rf_element &in) { return first(in) > 5; })
                                 .prefetch(2);
    std::vector<float> seen;
    for (const rf_element &element : data.pass()) seen.push_back(first(element));
    CHECK((seen == std::vector<float>{ 6, 8, 10, 12, 14, 16, 18 }));

    const rf::dataset failing = counted(10)
                                    .map(spec,
                                         [](const rf_element &in, rf_element &) {
                                             if (first(in) == 3) throw mistake("element three");
                                         })
                                    .prefetch(2);
    seen.clear();
    const std::string message = thrown([&] {
        for (const rf_element &element : failing.pass()) seen.push_back(first(element));
    });
    CHECK(message == "element three" && seen.size() == 3);

    /* Several datasets, which nothing else keeps. */
    const rf::dataset sides = rf::dataset::zip({ counted(3), counted(4) });
    const rf::dataset mixed = rf::dataset::sample({ counted(3), counted(4) }, rf::sample_params().seed(1));
    seen.clear();
    for (const rf_element &element : sides.pass()) {
        CHECK(element.num_components == 2);
        seen.push_back(first(element));
    }
    CHECK((seen == std::vector<float>{ 0, 1, 2 }));
    float sum = 0;
    for (const rf_element &element : mixed.pass()) sum += first(element);
    CHECK(sum == 9);
    const auto [mean, variance] = counted(3).moments(rf::moments_params().whole(true));
    CHECK(mean.values<float>()[0] == 1 && std::fabs(variance.values<float>()[0] - 2.0f / 3) < 1e-6f);

    const auto position = rf::iterator::create(counted(2), 0);
    CHECK(first(*position.next()) == 0 && first(*position.next()) == 1 && !position.next());
}

struct counter {
    int *epochs;
    bool stop;
    void on_epoch_end(rf_fit_state &state, const rf_logs &logs)
    {
        double loss = NAN;
        CHECK(rf_logs_get(&logs, "loss", &loss) && std::isfinite(loss));
        CHECK(state.epoch == static_cast<uint32_t>(*epochs));
        ++*epochs;
        if (stop) throw mistake("enough");
    }
};

static void models(rf::strategy &strategy)
{
    float x[8] = { 0, 1, 2, 3, 4, 5, 6, 7 }, y[8];
    for (int i = 0; i < 8; i++) y[i] = 2 * x[i] - 1;
    const rf_array arrays[] = { { RF_F32, rf::shape(8, 1), x }, { RF_F32, rf::shape(8, 1), y } };
    const rf::dataset data =
        rf::dataset::from_arrays(rf::dataset_arrays_params().arrays(arrays).num_arrays(2)).batch(4);
    rf::layer dense = rf::layer::dense(rf::dense_params().units(1));
    const auto model = rf::model::create(strategy, [&](rf_trace *, rf_model *of, const rf::tensor &in, rf_mode mode) {
        return dense.call(of, in, mode);
    });
    model.add_layer(dense);
    const auto optimizer =
        rf::optimizer::create(strategy, rf::optimizer_params().kind(RF_OPTIMIZER_SGD).learning_rate(0.01));
    model.compile(rf::compile_params().optimizer(optimizer).loss(rf::loss().kind(RF_LOSS_MEAN_SQUARED_ERROR)));
    int epochs = 0;
    const auto callback = rf::callback::create(counter{ &epochs, false });
    rf_callback *callbacks[] = { callback };
    auto params = rf::fit_params().data(data).epochs(3).callbacks(callbacks).num_callbacks(1);
    const rf::history history = model.fit(params);
    CHECK(epochs == 3 && history.size() == 3 && history.get(2, "loss") < history.get(0, "loss"));
    CHECK(!history.get(0, "no such value"));
    const rf::array predictions = model.predict(data);
    CHECK(predictions.shape().dim[0] == 8 && predictions.dtype() == RF_F32);
    CHECK(model.summary().find("dense") != std::string::npos);

    epochs = 0;
    const auto stopping = rf::callback::create(counter{ &epochs, true });
    callbacks[0] = stopping;
    CHECK(thrown([&] { model.fit(params); }) == "enough" && epochs == 1);
}

/* Texts that a model goes on with, and how chats are written. */
static void texts(rf::strategy &strategy)
{
    const rf::layer parts[] = { rf::layer::embedding(rf::embedding_params().input_dim(5).output_dim(4)),
                                rf::layer::dense(rf::dense_params().units(5)) };
    const auto model = rf::model::sequential(strategy, parts);
    model.build_for(RF_I32, rf::shape(3));
    int32_t tokens[] = { 1, 4, 2 };
    const rf_array prompts[] = { { RF_I32, rf::shape(2), tokens }, { RF_I32, rf::shape(3), tokens } };
    const std::vector<rf::array> made =
        model.generate(rf::generate_params().prompts(prompts).num_prompts(2).max_new_tokens(4));
    CHECK(made.size() == 2 && made[0].shape().dim[0] == 4 && made[1].values<int32_t>()[3] < 5);

    rf::tokenizer bytes;
    const rf_tokenizer_params kind = rf::tokenizer_params().kind(RF_TOKENIZER_BYTE_PAIR);
    CHECK(rf_tokenizer_train(&kind, nullptr, nullptr, 0, bytes.out()) == RF_OK);
    const char *stops[] = { "zz" };
    const auto stream =
        rf::text_stream::create(rf::text_stream_params().tokenizer(bytes).stop_strings(stops).num_stop_strings(1));
    CHECK(std::string(stream.add('a')) == "a" && std::string(stream.add('z')).empty());
    CHECK(std::string(stream.finish()) == "z");

    const std::string text = "{{ messages[0].content }}!";
    const auto chat_template =
        rf::chat_template::create(rf::chat_template_params().text(text.c_str()).size(text.size()));
    const rf_chat_message message = { "user", "hi", 2, {} };
    rf_chat chat = {};
    chat.messages = &message;
    chat.num_messages = 1;
    CHECK(std::string(chat_template.apply(chat)) == "hi!");
}

/* A model as a layer of another one. */
static void layers_of_models(rf::strategy &strategy)
{
    const rf::layer body[] = { rf::layer::dense(rf::dense_params().units(2).name("body")) };
    const auto inner = rf::model::sequential(strategy, body, rf::shape(3));
    const rf::layer parts[] = { rf::layer::from_model(rf::model_layer_params().model(inner).name("inner")),
                                rf::layer::dense(rf::dense_params().units(1).name("head")) };
    const auto outer = rf::model::sequential(strategy, parts, rf::shape(3));
    CHECK(outer.find_layer("inner/body") == inner.find_layer("body"));
    CHECK(outer.num_layers() == 2 && outer.output_shape(0).dim[0] == 1);
    CHECK(std::string(outer.variable_name(rf_layer_variable(outer.find_layer("inner/body"), "bias"))) ==
          "inner/body/bias");
}

/* Functions of <ringfire/lora.h> are methods of the model. */
static void adapters(rf::strategy &strategy)
{
    const rf::layer layers[] = { rf::layer::dense(rf::dense_params().units(2).name("body")),
                                 rf::layer::dense(rf::dense_params().units(1).name("head")) };
    const auto model = rf::model::sequential(strategy, layers, rf::shape(3));
    const char *targets[] = { "head" };
    model.lora_attach("first");
    model.lora_attach("second", rf::lora_params().rank(4).targets(targets).num_targets(1));
    CHECK(model.lora_num_adapters() == 2 && std::string(model.lora_active()) == "second");
    CHECK(std::string(model.lora_module_name(1)) == "head");
    model.lora_set_active(nullptr);
    CHECK(!model.lora_active());
    CHECK(thrown([&] { model.lora_merge("third"); }).find("no adapter 'third'") != std::string::npos);
}

static void handles(rf::strategy &strategy)
{
    auto variable = rf::variable::create(strategy, rf::variable_params().shape(rf::shape(1)));
    rf_variable *pointer = variable;
    rf::variable moved = std::move(variable);
    CHECK(!variable && moved.get() == pointer);
    variable = std::move(moved);
    CHECK(!moved && variable.get() == pointer);
    variable.reset();
    CHECK(!variable);
    CHECK(thrown([&] { variable.assign({}); }) != "");
}

int main()
{
    const struct {
        const char *name;
        void (*run)(rf::strategy &);
    } tests[] = { { "errors", errors },     { "tensors", tensors },
                  { "steps", steps },       { "variables", variables },
                  { "datasets", datasets }, { "models", models },
                  { "handles", handles },   { "layers of models", layers_of_models },
                  { "texts", texts },       { "adapters", adapters } };
    rf::strategy strategy = rf::strategy::mirrored();
    for (const auto &test : tests) {
        const std::string message = thrown([&] { test.run(strategy); });
        if (message != "") {
            std::fprintf(stderr, "%s: %s\n", test.name, message.c_str());
            failures++;
        }
    }
    std::printf("%d failures\n", failures);
    return failures > 0;
}
