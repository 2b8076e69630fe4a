/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokenizers on the command line, for comparison with other programs:
 *   tokenize train KIND MOST OUT FILE...  learns a vocabulary of the kind's number from the lines of files
 *   tokenize encode FILE                  reads texts, or two with a tab between them, in hexadecimal; for each it
 * prints the tokens, those without special ones, the types, and the text that decoding gives, with tabs between them
 *   tokenize speed FILE TEXT              how many megabytes of a file it encodes in a second of processor time
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <ringfire/text.h>

#define DO_OR_SAY(call)                                                                                                \
    do {                                                                                                               \
        if ((call) < 0) {                                                                                              \
            fprintf(stderr, "%s\n", rf_error_message());                                                               \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

static int train(int argc, char **argv)
{
    const rf_tokenizer_params params = { .kind = (rf_tokenizer_kind)atoi(argv[2]),
                                         .max_tokens = (uint32_t)atoi(argv[3]) };
    rf_text_lines *lines;
    rf_tokenizer *t;
    DO_OR_SAY(rf_text_lines_read((const char *const *)(argv + 5), (uint32_t)(argc - 5), &lines));
    DO_OR_SAY(rf_tokenizer_train(&params, rf_text_lines_texts(lines), rf_text_lines_sizes(lines),
                                 rf_text_lines_count(lines), &t));
    DO_OR_SAY(rf_tokenizer_save(t, argv[4]));
    rf_tokenizer_destroy(&t);
    rf_text_lines_destroy(&lines);
    return 0;
}

/* In its own place. */
static size_t from_hex(char *text, size_t size)
{
    for (size_t i = 0; i + 1 < size; i += 2) {
        unsigned byte = 0;
        sscanf(text + i, "%2x", &byte);
        text[i / 2] = (char)byte;
    }
    return size / 2;
}

static void print_tokens(rf_array *tokens)
{
    for (int64_t i = 0; i < tokens->shape.dim[0]; i++)
        printf("%s%d", i > 0 ? " " : "", ((const int32_t *)tokens->data)[i]);
    putchar('\t');
    rf_array_free(tokens);
}

static int encode_line(const rf_tokenizer *t, char *line, size_t size)
{
    char *tab = memchr(line, '\t', size), *text;
    rf_tokenizer_encode_params params = { .pair = tab ? tab + 1 : NULL };
    rf_array tokens, types, plain;
    const size_t first = tab ? (size_t)(tab - line) : size;
    size_t text_size;
    if (tab) params.pair_size = from_hex(tab + 1, size - first - 1);
    const size_t line_size = from_hex(line, first);
    DO_OR_SAY(rf_tokenizer_encode_with(t, line, line_size, &params, &tokens, &types));
    params.no_special_tokens = true;
    DO_OR_SAY(rf_tokenizer_encode_with(t, line, line_size, &params, &plain, NULL));
    DO_OR_SAY(rf_tokenizer_decode(t, tokens.data, (uint64_t)tokens.shape.dim[0], &text, &text_size));
    print_tokens(&tokens);
    print_tokens(&plain);
    print_tokens(&types);
    for (size_t i = 0; i < text_size; i++) printf("%02x", (unsigned char)text[i]);
    putchar('\n');
    rf_string_free(text);
    return 0;
}

static int encode(const rf_tokenizer *t)
{
    char *line = NULL;
    size_t room = 0;
    int failed = 0;
    for (ssize_t size; !failed && (size = getline(&line, &room, stdin)) > 0;)
        failed = encode_line(t, line, (size_t)size - (line[size - 1] == '\n'));
    free(line);
    return failed;
}

static int speed(const rf_tokenizer *t, const char *path)
{
    static char text[8 << 20];
    FILE *file = fopen(path, "rb");
    if (!file) return 1;
    const size_t size = fread(text, 1, sizeof(text), file);
    fclose(file);
    rf_array tokens;
    const clock_t start = clock();
    DO_OR_SAY(rf_tokenizer_encode(t, text, size, &tokens));
    const double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    printf("%.2f MB/s, %.2f bytes a token\n", (double)size / 1e6 / seconds, (double)size / (double)tokens.shape.dim[0]);
    rf_array_free(&tokens);
    return 0;
}

int main(int argc, char **argv)
{
    rf_tokenizer *t;
    if (argc > 5 && strcmp(argv[1], "train") == 0) return train(argc, argv);
    if (argc < 3) return 2;
    DO_OR_SAY(rf_tokenizer_load(argv[2], &t));
    const int failed = argc > 3 && strcmp(argv[1], "speed") == 0 ? speed(t, argv[3]) : encode(t);
    rf_tokenizer_destroy(&t);
    return failed;
}
