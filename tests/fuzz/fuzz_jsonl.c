/* SPDX-License-Identifier: Apache-2.0 */
/* JSON Lines: each line that is not empty makes an element within its shapes, or is refused in one line. The first byte
 * chooses: 1  chats, else fields. The second one is the most that a line may have, times 8, the third one the most
 * values of an element. */
#include <string.h>

#include <ringfire/text.h>

#include "fuzz.h"
#include "records.h"

/* Roles are not learned, contents are: a token for each byte. */
static rf_result render_bytes(void *user, const rf_chat *chat, rf_chat_tokens *out)
{
    (void)user;
    for (uint32_t i = 0; i < chat->num_messages; i++) {
        const rf_chat_message *m = &chat->messages[i];
        PROMISE(m->content[m->content_size] == '\0');
        for (size_t k = 0; m->role[k]; k++)
            PROMISE(rf_chat_tokens_append(out, &(int32_t){ (uint8_t)m->role[k] }, 1, false) == RF_OK);
        for (size_t k = 0; k < m->content_size; k++)
            PROMISE(rf_chat_tokens_append(out, &(int32_t){ (uint8_t)m->content[k] }, 1, true) == RF_OK);
    }
    return RF_OK;
}

static rf_tokenizer *make_tokenizer(void)
{
    static rf_tokenizer *made;
    const rf_tokenizer_params pairs = { .kind = RF_TOKENIZER_BYTE_PAIR };
    if (!made) PROMISE(rf_tokenizer_train(&pairs, NULL, NULL, 0, &made) == RF_OK);
    return made;
}

static rf_result open_lines(const char *path, bool chats, uint32_t max_bytes, uint32_t most, rf_dataset **out)
{
    rf_tokenizer *tokenizer = make_tokenizer();
    const rf_jsonl_field fields[] = {
        { .name = "text", .dtype = RF_U8, .shape = RF_SHAPE(most), .variable = true, .truncate = true },
        { .name = "text", .tokenizer = tokenizer, .shape = RF_SHAPE(most), .variable = true },
        { .name = "x", .dtype = RF_F32, .shape = RF_SHAPE(most, 2), .variable = true, .truncate = true },
        { .name = "n", .dtype = RF_I32 },
    };
    if (chats)
        return rf_dataset_from_chats(&(rf_chats_params){ .paths = &path,
                                                         .num_paths = 1,
                                                         .max_bytes = max_bytes,
                                                         .max_tokens = most,
                                                         .render = render_bytes,
                                                         .tokenizer = tokenizer },
                                     out);
    return rf_dataset_from_jsonl(
        &(rf_jsonl_params){ .paths = &path, .num_paths = 1, .max_bytes = max_bytes, .fields = fields, .num_fields = 4 },
        out);
}

static void check_chat(const rf_element *e, uint32_t most)
{
    const int64_t count = e->component[0].shape.dim[0];
    const int32_t *tokens = e->component[0].data, *labels = e->component[1].data;
    PROMISE(count >= 1 && count <= most && e->component[1].shape.dim[0] == count);
    for (int64_t i = 0; i + 1 < count; i++) PROMISE(labels[i] == RF_IGNORED_LABEL || labels[i] == tokens[i + 1]);
}

static void check_fields(const rf_element *e, uint32_t most)
{
    for (int c = 0; c < 3; c++) PROMISE(e->component[c].shape.dim[0] >= 0 && e->component[c].shape.dim[0] <= most);
    if (e->component[0].shape.dim[0] < most)
        PROMISE(e->component[1].shape.dim[0] == e->component[0].shape.dim[0]); /* a token for each byte */
}

FUZZ_TARGET(jsonl)
{
    rf_dataset *d, *good;
    rf_iterator *it;
    const rf_element *e;
    if (size < 3 || size > 1 << 16) return 0;
    const bool chats = data[0] & 1;
    const uint32_t most = (uint32_t)data[2] + 1;
    const rf_result made = open_lines(file_in_memory(data + 3, size - 3), chats, 8 * (uint32_t)data[1] + 1, most, &d);
    if (made < 0) {
        PROMISE((made == RF_ERROR_CORRUPT_DATA || made == RF_ERROR_UNSUPPORTED) && !d);
        promise_message();
        return 0;
    }
    PROMISE(rf_dataset_ignore_errors(d, RF_IGNORE_SILENTLY, &good) == RF_OK);
    PROMISE(rf_iterator_create(good, 0, &it) == RF_OK);
    uint64_t count = 0;
    rf_result r;
    for (; (r = rf_iterator_next(it, &e)) == RF_OK; count++) {
        if (chats)
            check_chat(e, most);
        else
            check_fields(e, most);
    }
    PROMISE(r == RF_END && count + rf_dataset_ignored_errors(good) == (uint64_t)rf_dataset_cardinality(d));
    PROMISE(rf_dataset_cut_elements(good) <= count);
    rf_iterator_destroy(&it);
    PROMISE(rf_iterator_create(d, 0, &it) == RF_OK);
    while ((r = rf_iterator_next(it, &e)) == RF_OK) continue;
    if (r < 0) promise_message();
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&good);
    rf_dataset_destroy(&d);
    return 0;
}
