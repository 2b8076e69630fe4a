/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation of the text layer fails once: the failure is reported, and nothing leaks (the latter under
 * AddressSanitizer). Allocation is replaced with the linker's --wrap; jansson's own is not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/allocations.h"
#include "base/memory.h"
#include "base/platform.h"
#include "tests/room.h"
#include "text/lines.h"
#include "text/tokenizer.h"
#include "tokens.h"

typedef struct everything {
    rf_tokenizer *tokenizer, *again;
    rf_text_lines *lines;
    rf_array tokens, rows;
    rf_dataset *windows;
    char *text, *file;
} everything;

static const char sample[] = "some words and\nsome other words, as\xff many as it takes\nto grow a table once or twice";

static rf_result do_everything(rf_tokenizer_kind kind, everything *all)
{
    static const char *const special[] = { "[START]" };
    const rf_tokenizer_params params = { .kind = kind, .special_tokens = special, .num_special_tokens = 1 };
    GO(rf_text_lines_new(&all->lines));
    GO(rf_text_lines_append(all->lines, sample, sizeof(sample) - 1));
    GO(rf_text_lines_append(all->lines, sample, sizeof(sample) - 1));
    const uint64_t count = rf_text_lines_count(all->lines);
    const char *const *texts = rf_text_lines_texts(all->lines);
    const size_t *sizes = rf_text_lines_sizes(all->lines);
    GO(rf_tokenizer_train(&params, texts, sizes, count, &all->tokenizer));
    GO(rf_tokenizer_text(all->tokenizer, &all->file));
    GO(rf_tokenizer_parse(all->file, strlen(all->file), true, &all->again));
    GO(rf_tokenizer_encode(all->again, sample, sizeof(sample) - 1, &all->tokens));
    GO(rf_tokenizer_decode(all->again, all->tokens.data, (uint64_t)all->tokens.shape.dim[0], &all->text, NULL));
    GO(rf_tokenizer_encode_padded(all->again, texts, sizes, (uint32_t)count, NULL, &all->rows));
    return rf_dataset_from_tokens(&all->tokens, 3, 1, &all->windows);
}

static void free_everything(everything *all)
{
    rf_tokenizer_destroy(&all->tokenizer);
    rf_tokenizer_destroy(&all->again);
    rf_text_lines_destroy(&all->lines);
    rf_array_free(&all->tokens);
    rf_array_free(&all->rows);
    rf_dataset_destroy(&all->windows);
    rf_string_free(all->text);
    rf_free(all->file);
}

TEST(test_every_allocation_fails_once)
{
    for (rf_tokenizer_kind kind = RF_TOKENIZER_CHARACTERS; kind <= RF_TOKENIZER_BYTE_PAIR; kind++) {
        long failures = 0;
        for (long limit = 0;; limit++) {
            everything all = { 0 };
            allowed = limit;
            const rf_result r = do_everything(kind, &all);
            const bool exhausted = allowed < 0;
            allowed = -1;
            if (exhausted) {
                if (r != RF_ERROR_OUT_OF_HOST_MEMORY) fail_msg("allocation %ld: %s", limit, rf_result_name(r));
                assert_true(rf_error_message()[0]);
                failures++;
            } else {
                OK(r);
            }
            free_everything(&all);
            if (!exhausted) break;
        }
        print_message("kind %d: %ld allocations failed\n", (int)kind, failures);
        assert_true(failures > 20);
    }
}

/* ---- tokenizer.json ---- */

static char *read_seed(const char *name)
{
    char path[1024];
    void *text;
    size_t size;
    snprintf(path, sizeof(path), SOURCE_ROOT "/tests/fuzz/corpus/fuzz_tokenizer_json/%s", name);
    OK(rf_file_read(path, 0, &text, &size));
    return text;
}

static rf_result use_pipeline(const char *file, everything *all)
{
    static const char text[] = "The first\xff caf\xc3\xa9 types 123  the_type\xe4\xb8\xad, e\xcc\x81 <s> and so on";
    const rf_tokenizer_encode_params params = { .pair = text, .pair_size = sizeof(text) - 1 };
    GO(rf_tokenizer_parse(file, strlen(file), true, &all->tokenizer));
    GO(rf_tokenizer_encode_with(all->tokenizer, text, sizeof(text) - 1, &params, &all->tokens, &all->rows));
    GO(rf_tokenizer_decode(all->tokenizer, all->tokens.data, (uint64_t)all->tokens.shape.dim[0], &all->text, NULL));
    return rf_tokenizer_text(all->tokenizer, &all->file);
}

TEST(test_every_allocation_of_a_pipeline_fails_once)
{
    static const char *const names[] = { "bert", "clip", "llama3", "mistral", "unigram", "word_level" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char *file = read_seed(names[i]);
        long failures = 0;
        for (bool exhausted = true; exhausted; failures += exhausted) {
            everything all = { 0 };
            allowed = failures;
            const rf_result r = use_pipeline(file, &all);
            exhausted = allowed < 0;
            allowed = -1;
            if (r != (exhausted ? RF_ERROR_OUT_OF_HOST_MEMORY : RF_OK))
                fail_msg("%s, allocation %ld: %s", names[i], failures, rf_error_message());
            free_everything(&all);
        }
        print_message("%s: %ld allocations failed\n", names[i], failures);
        assert_true(failures > 20);
        rf_free(file);
    }
}

TESTS(text_memory, NULL, NULL)
