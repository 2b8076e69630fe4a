/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A language model of the Hugging Face hub learns a text by a low-rank adapter, which is saved, and goes on with a
 * prompt. Usage: pretrained_cpp MODEL_DIR TEXT_FILE ADAPTER_DIR PROMPT
 */
#include <ringfire/ringfire.hpp>

#include <cstdio>
#include <fstream>
#include <iterator>

namespace rf = ringfire;

enum { TOKENS = 64, BATCH = 4, EPOCHS = 3, NEW_TOKENS = 24 };

static std::string read_file(const char *path)
{
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error(std::string(path) + ": cannot open");
    return { std::istreambuf_iterator<char>(file), {} };
}

static void learn(const rf::strategy &strategy, const rf::model &model, const rf::array &tokens)
{
    const rf::dataset windows = rf::dataset::from_tokens(tokens.get(), TOKENS, TOKENS / 2);
    const rf::dataset batches = windows.shuffle(static_cast<uint64_t>(windows.cardinality()))
                                    .batch(BATCH * strategy.num_replicas_in_sync())
                                    .prefetch(2);
    const auto optimizer = rf::optimizer::create(strategy, RF_OPTIMIZER_ADAMW, 1e-3);
    model.compile(rf::compile_params().optimizer(optimizer).loss(rf::loss().from_logits(true)));
    const rf::history history = model.fit(rf::fit_params().data(batches).epochs(EPOCHS));
    for (std::size_t epoch = 0; epoch < history.size(); epoch++)
        std::printf("Epoch %zu: loss %.3f\n", epoch + 1, history.get(epoch, "loss").value());
}

static void write(const rf::model &model, const rf::tokenizer &tokenizer, const std::string &prompt)
{
    const rf::array start = tokenizer.encode(prompt);
    const auto texts =
        model.generate(rf::generate_params().prompts(&start.get()).num_prompts(1).max_new_tokens(NEW_TOKENS));
    std::printf("%s%s\n", prompt.c_str(), tokenizer.decode(texts[0].values<int32_t>()).c_str());
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        std::fprintf(stderr, "Usage: %s MODEL_DIR TEXT_FILE ADAPTER_DIR PROMPT\n", argv[0]);
        return 2;
    }
    try {
        const std::string directory = argv[1];
        const rf::strategy strategy = rf::strategy::mirrored();
        const rf::pretrained pretrained =
            rf::pretrained::open(strategy, directory, rf::pretrained_params().sequence_length(TOKENS));
        const rf::tokenizer tokenizer = rf::tokenizer::load(directory + "/tokenizer.json");
        const rf::model model = pretrained.model();
        model.lora_attach("text", rf::lora_params().rank(8));
        learn(strategy, model, tokenizer.encode(read_file(argv[2])));
        model.lora_save("text", argv[3]);
        write(model, tokenizer, argv[4]);
    } catch (const std::exception &e) {
        std::fprintf(stderr, "%s: %s\n", argv[0], e.what());
        return 1;
    }
    return 0;
}
