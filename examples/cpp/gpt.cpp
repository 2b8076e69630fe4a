/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small GPT learns to write text and writes some, in C++: the program of gpt/, with its model, variables and output,
 * on one job's devices (parameter servers are left to gpt/).
 */
#include "program.hpp"

#include <algorithm>
#include <cmath>

extern "C" {
#include "../common/text.h"
}

namespace rf = ringfire;

struct config {
    uint32_t layers = 4, heads = 4, width = 128, block = 64, vocabulary = 0;
    float dropout = 0;
    rf_dtype compute = RF_F32;
};

/* ---- the model: Radford et al. 2019, without biases ---- */

struct gpt {
    struct block {
        rf::variable norm_1, qkv, output, norm_2, expand, contract;
        rf::variable keys, values; /* of what was read, for the next step */
    };

    gpt(rf_strategy *strategy, const config &chosen) : c(chosen)
    {
        const auto made = [&](const std::string &name, rf_shape shape, rf_initializer_kind kind, float deviation) {
            return rf::variable::create(strategy, rf::variable_params()
                                                      .name(name.c_str())
                                                      .shape(shape)
                                                      .initializer(rf::initializer().kind(kind).b(deviation)));
        };
        const auto matrix = [&](const std::string &name, uint32_t rows, uint32_t columns, float deviation = 0.02f) {
            return made(name, rf::shape(rows, columns), RF_INIT_RANDOM_NORMAL, deviation);
        };
        const auto norm = [&](const std::string &name) {
            return made(name + "/gamma", rf::shape(c.width), RF_INIT_ONES, 0);
        };
        const float residual = 0.02f / std::sqrt(2.0f * static_cast<float>(c.layers));
        tokens = matrix("tokens/embeddings", c.vocabulary, c.width);
        positions = matrix("positions/embeddings", c.block, c.width);
        for (uint32_t i = 0; i < c.layers; i++) {
            const std::string b = "block_" + std::to_string(i);
            blocks.push_back({ norm(b + "/norm_1"),
                               matrix(b + "/attention/qkv/kernel", c.width, 3 * c.width),
                               matrix(b + "/attention/output/kernel", c.width, c.width, residual),
                               norm(b + "/norm_2"),
                               matrix(b + "/mlp/expand/kernel", c.width, 4 * c.width),
                               matrix(b + "/mlp/contract/kernel", 4 * c.width, c.width, residual),
                               {},
                               {} });
        }
        last_norm = norm("last_norm");
        model = rf::model::create(strategy, [this](rf_trace *t, rf_model *, rf::tensor x, rf_mode mode) {
            x = embed(x, positions.in(t));
            if (mode == RF_TRAINING && c.compute != RF_F32) x = cast(x, c.compute);
            return classify(transform(x, {}));
        });
    }

    /* Room for the keys and values of one text. */
    void remember(rf_strategy *strategy)
    {
        for (uint32_t i = 0; i < c.layers; i++)
            for (rf::variable *kept : { &blocks[i].keys, &blocks[i].values }) {
                const std::string name =
                    "cache/block_" + std::to_string(i) + (kept == &blocks[i].keys ? "/key" : "/value");
                *kept = rf::variable::create(strategy, rf::variable_params()
                                                           .name(name.c_str())
                                                           .shape(rf::shape(1, c.heads, c.block, c.width / c.heads))
                                                           .initializer(rf::initializer().kind(RF_INIT_ZEROS))
                                                           .not_trainable(true));
            }
    }

    /* Logits after number `last` of tokens [1, t] at `places` [t]; those before them have been read by earlier steps.
     */
    rf::tensor go_on(const rf::tensor &given, const rf::tensor &places, const rf::tensor &last)
    {
        const rf::tensor x = embed(given, gather(positions.in(given.trace()), places, 0));
        return squeeze(classify(gather(transform(x, slice(places, { 0 }, { 1 })), last, 1)), 1);
    }

    rf::tensor project(const rf::tensor &x, const rf::variable &weight)
    {
        return matmul(x, cast(weight.in(x.trace()), x.dtype()));
    }
    rf::tensor normalize(const rf::tensor &x, const rf::variable &gamma)
    {
        return layer_norm(x, gamma.in(x.trace()), {}, 1e-5f);
    }
    rf::tensor embed(const rf::tensor &given, const rf::tensor &at)
    {
        const rf::tensor rows = one_hot(given, static_cast<int32_t>(c.vocabulary));
        return dropout(matmul(rows, tokens.in(given.trace())) + at, c.dropout);
    }
    /* [n, t, width] -> [n, heads, t, width / heads] */
    rf::tensor split_heads(const rf::tensor &x)
    {
        const int64_t count = x.shape().dim[1], heads = c.heads, width = c.width / c.heads;
        if (count == 1) return reshape(x, rf::shape(-1, heads, 1, width));
        return transpose(reshape(x, rf::shape(-1, count, heads, width)), { 0, 2, 1, 3 });
    }
    rf::tensor join_heads(const rf::tensor &x)
    {
        const int64_t count = x.shape().dim[2];
        return reshape(count > 1 ? transpose(x, { 0, 2, 1, 3 }) : x, rf::shape(-1, count, c.width));
    }
    /* Puts new keys or values behind those of earlier steps, and keeps all of them for the next one. */
    rf::tensor extend(const rf::variable &kept, const rf::tensor &added, const rf::tensor &place)
    {
        const rf::tensor all = slice_update(kept.in(added.trace()), added, place, 2);
        kept.update(all, RF_AGGREGATE_FIRST_REPLICA);
        return all;
    }
    /* With a `place` the keys and values before it are those that are kept. */
    rf::tensor attend(const block &b, const rf::tensor &x, const rf::tensor &place)
    {
        const int64_t most = INT64_MAX, width = c.width;
        rf::tensor heads[3];
        const rf::tensor qkv = project(x, b.qkv);
        for (int64_t i = 0; i < 3; i++)
            heads[i] = split_heads(slice(qkv, { 0, 0, i * width }, { most, most, (i + 1) * width }));
        rf::attention_params how;
        how.causal(true).dropout(c.dropout).first_query(place);
        if (place.trace()) {
            heads[1] = extend(b.keys, heads[1], place);
            heads[2] = extend(b.values, heads[2], place);
        }
        const rf::tensor joined = join_heads(attention(heads[0], heads[1], heads[2], how));
        return dropout(project(joined, b.output), c.dropout);
    }
    rf::tensor transform(rf::tensor x, const rf::tensor &place)
    {
        for (const block &b : blocks) {
            x += attend(b, normalize(x, b.norm_1), place);
            x += dropout(project(gelu(project(normalize(x, b.norm_2), b.expand)), b.contract), c.dropout);
        }
        return x;
    }
    rf::tensor classify(const rf::tensor &x)
    {
        return matmul(cast(normalize(x, last_norm), RF_F32), tokens.in(x.trace()), RF_TRANSPOSE_B);
    }

    config c;
    rf::variable tokens, positions, last_norm;
    std::vector<block> blocks;
    rf::model model;
};

/* ---- options ---- */

struct settings {
    config model;
    std::vector<const char *> texts;
    uint32_t steps = 0, sample_length = 400, max_tokens = 1024;
    std::string prompt = "\n";
    const char *byte_pairs = nullptr;
    double temperature = 0.8;
    bool full = false, muon = false;
};

static const argp_option own_options[] = {
    { "text", 't', "PATH", 0, "A file, or a directory with *.md and *.txt; may be given again", 1 },
    { "steps", 'i', "N", 0, "Steps to train (default: 2000; with --full 5000)", 1 },
    { "full", 'F', nullptr, 0, "6 layers, 6 heads, 384 wide, 256 tokens, batches of 64, dropout 0.2", 1 },
    { "byte-pairs", 'p', "FILE", 0, "Tokens are the byte pairs of this file, which is learned where there is none", 1 },
    { "muon", 'M', nullptr, 0, "Train with Muon instead of AdamW", 1 },
    { "sample", 'w', "N", 0, "Tokens to write after the training (default: 400)", 1 },
    { "prompt", 'q', "TEXT", 0, "What the written text begins with (default: a new line)", 1 },
    { "temperature", 'T', "X", 0, "Below 1: likelier tokens; above: more surprising ones (default: 0.8)", 1 },
    {},
};

static error_t parse_own(int key, char *value, argp_state *state)
{
    settings &s = *static_cast<settings *>(state->input);
    switch (key) {
    case 't': s.texts.push_back(value); return 0;
    case 'i': s.steps = static_cast<uint32_t>(example_parse_count(state, value, 10000000)); return 0;
    case 'F': s.full = true; return 0;
    case 'p': s.byte_pairs = value; return 0;
    case 'M': s.muon = true; return 0;
    case 'w': s.sample_length = static_cast<uint32_t>(example_parse_count(state, value, 1u << 20)); return 0;
    case 'q': s.prompt = value; return 0;
    case 'T': s.temperature = example_parse_rate(state, value); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* ---- training ---- */

constexpr uint32_t steps_per_report = 250;

struct reporter {
    const settings &s;
    const text &corpus;
    void on_epoch_end(rf_fit_state &state, const rf_logs &logs)
    {
        double loss = 0, validation = 0;
        rf_logs_get(&logs, "loss", &loss);
        rf_logs_get(&logs, "val_loss", &validation);
        const double bits =
            validation / std::log(2.0) * static_cast<double>(corpus.length) / static_cast<double>(corpus.num_bytes);
        example_print("Step %u: loss %.4f, validation %.4f, %.3f bits per byte  (%.0f tokens/s)\n",
                      static_cast<unsigned>(rf_optimizer_iterations(state.optimizer)), loss, validation, bits,
                      static_cast<double>(state.timed_examples) * s.model.block / state.train_seconds);
    }
};

static rf::dataset windows(const text &corpus, uint64_t begin, uint64_t end, uint32_t length, uint64_t step)
{
    rf::dataset made;
    check(text_windows(&corpus, begin, end, length, static_cast<uint32_t>(step), made.out()));
    return made;
}

static void train(const example_options &options, const settings &s, const text &corpus, const rf::strategy &strategy,
                  const rf::model &model)
{
    const uint64_t border = corpus.length - corpus.length / 10, block = s.model.block;
    const uint32_t batch = options.batch_size * strategy.num_replicas_in_sync();
    const rf::dataset all = windows(corpus, 0, border, s.model.block, 1);
    const rf::dataset train_data =
        all.shuffle(static_cast<uint64_t>(all.cardinality()), options.seed).batch(batch, RF_REMAINDER_DROP);
    const uint64_t places = corpus.length - border > block ? corpus.length - border - block : 1;
    const rf::dataset held_out = windows(corpus, border, corpus.length, s.model.block, places / 240 + 1).batch(batch);

    const uint32_t warmup = s.steps / 20;
    rf::schedule schedule;
    schedule.kind(RF_SCHEDULE_COSINE_DECAY).initial(options.learning_rate).alpha(0.1);
    schedule.warmup_steps(warmup).decay_steps(s.steps - warmup);
    rf::optimizer_params params;
    params.kind(s.muon ? RF_OPTIMIZER_MUON : RF_OPTIMIZER_ADAMW).schedule(&schedule).beta_2(0.99).epsilon(1e-8);
    params.weight_decay(0.1).global_clip_norm(1.0).loss_scale(example_loss_scale(&options));
    const auto optimizer = rf::optimizer::create(strategy, params);
    model.compile(rf::compile_params().optimizer(optimizer).loss(rf::loss().from_logits(true)).steps_per_execution(10));
    const auto report = rf::callback::create(reporter{ s, corpus });
    rf_callback *callbacks[] = { report };
    const uint32_t steps = std::min(s.steps, steps_per_report);
    model.fit(rf::fit_params()
                  .data(train_data)
                  .validation_data(held_out)
                  .steps_per_epoch(steps)
                  .epochs(s.steps / steps)
                  .callbacks(callbacks)
                  .num_callbacks(1));
}

/* ---- writing ---- */

/* Splitmix64; Steele, Lea, Flood 2014: uniform in [0, 1). */
static double draw(uint64_t &state)
{
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return static_cast<double>((z ^ z >> 31) >> 11) * 0x1p-53;
}

static int32_t choose(rf::view<float> logits, double temperature, double random)
{
    const auto weight = [&, largest = *std::max_element(logits.begin(), logits.end())](float logit) {
        return std::exp(static_cast<double>(logit - largest) / temperature);
    };
    double left = 0;
    for (const float logit : logits) left += random * weight(logit);
    std::size_t i = 0;
    while (i + 1 < logits.size() && (left -= weight(logits[i])) >= 0) i++;
    return static_cast<int32_t>(i);
}

static void write(const example_options &options, const settings &s, const text &corpus, const rf::strategy &strategy,
                  gpt &g)
{
    g.remember(strategy);
    const auto step = rf::function::create(strategy, [&](const rf::inputs &in) {
        const auto alone = [&](size_t i) { return rf::tensor(in.trace(), example_alone(in.trace(), in[i])); };
        return g.go_on(expand_dims(alone(0), 0), alone(1), alone(2));
    });
    const auto block = static_cast<std::size_t>(s.model.block);
    std::vector<int32_t> places(block), tokens;
    for (std::size_t i = 0; i < block; i++) places[i] = static_cast<int32_t>(i);
    int32_t *prompt;
    uint64_t length;
    check(text_encode(&corpus, s.prompt.c_str(), &prompt, &length));
    tokens.assign(prompt, prompt + length);
    std::free(prompt);
    if (tokens.empty()) tokens.push_back(0);
    if (tokens.size() > block) tokens.erase(tokens.begin(), tokens.end() - static_cast<std::ptrdiff_t>(block));

    uint64_t random = options.seed;
    std::size_t read = 0;
    example_print("\n%s", s.prompt.c_str());
    for (uint32_t i = 0; i < s.sample_length && !strategy.stop_agreed(); i++) {
        /* One new token, or a whole block: two shapes of input, so two recordings. */
        const bool one = read > 0 && tokens.size() == read + 1;
        const std::size_t first = one ? read : 0, count = one ? 1 : block;
        auto last = static_cast<int32_t>(tokens.size() - 1 - first);
        std::vector<int32_t> given(tokens.begin() + static_cast<std::ptrdiff_t>(first), tokens.end());
        given.resize(count);
        rf_element batch = {};
        batch.num_components = 3;
        batch.component[0] = { RF_I32, rf::shape(1, count), given.data() };
        batch.component[1] = { RF_I32, rf::shape(1, count), places.data() + first };
        batch.component[2] = { RF_I32, rf::shape(1, 1), &last };
        const rf::array logits = strategy.gather(strategy.run(step, batch)[0]);
        read = tokens.size();
        if (tokens.size() == block) { /* forget the first half: what is left stands elsewhere then */
            tokens.erase(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(block - block / 2));
            read = 0;
        }
        tokens.push_back(choose(logits.values<float>(), s.temperature, draw(random)));
        std::size_t size;
        const char *bytes = text_of(&corpus, tokens.back(), &size);
        example_print("%.*s", static_cast<int>(size), bytes);
    }
    example_print("\n");
}

/* ---- program ---- */

static int run(const example_options &options, const settings &s, const text &corpus, const rf::strategy &strategy)
{
    gpt g(strategy, s.model);
    example_print("%llu bytes of text, %u different tokens; %u layers, %u heads, %u wide, %u tokens\n",
                  static_cast<unsigned long long>(corpus.num_bytes), corpus.vocabulary, s.model.layers, s.model.heads,
                  s.model.width, s.model.block);
    train(options, s, corpus, strategy, g.model);
    if (!strategy.stop_agreed()) write(options, s, corpus, strategy, g);
    return strategy.stop_agreed() ? example_stopped() : 0;
}

int main(int argc, char **argv)
{
    example_options options = {};
    settings s;
    const argp own = { own_options, parse_own, nullptr, nullptr, nullptr, nullptr, nullptr };
    example_parse_with(argc, argv, "Trains a small GPT on text and lets it write.", "dbsrBm", &options, &own, &s);
    if (s.full) s.model = { 6, 6, 384, 256, 0, 0.2f, RF_F32 };
    if (options.mixed) s.model.compute = options.mixed;
    if (!s.steps) s.steps = s.full ? 5000 : 2000;
    if (s.steps > steps_per_report) s.steps += (steps_per_report - s.steps % steps_per_report) % steps_per_report;
    if (!options.batch_size) options.batch_size = s.full ? 64 : 12;
    if (s.texts.empty()) s.texts = { EXAMPLE_TEXTS };
    text corpus = {};
    if (text_load(s.texts.data(), static_cast<uint32_t>(s.texts.size()), s.byte_pairs, s.max_tokens, &corpus) < 0)
        return example_exit_status(-1);
    s.model.vocabulary = corpus.vocabulary;
    const int status = run_program(
        options, [&](rf_strategy *strategy) { return run(options, s, corpus, rf::borrow<rf::strategy>(strategy)); });
    text_free(&corpus);
    return status;
}
