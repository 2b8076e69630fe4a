/* SPDX-License-Identifier: Apache-2.0 */
/* Chat templates: a template ends within its bounds, with a text of UTF-8 or a failure of one line that names one. The
 * input is a template, a zero byte and a chat as JSON; without one, a chat that is always the same. */
#include <string.h>

#include <ringfire/text.h>

#include "base/utf8.h"
#include "fuzz.h"

FUZZ_TARGET(chat_template)
{
    static const rf_chat_message messages[] = { { .role = "system", .content = "Be\n", .content_size = 3 },
                                                { .role = "user", .content = " a<b ", .content_size = 5 },
                                                { .role = "assistant", .content = "\xc3\xa9", .content_size = 2 } };
    rf_chat_template *t;
    char *text;
    size_t bytes;
    if (size > 1 << 14) return 0;
    const uint8_t *end = size ? memchr(data, 0, size) : NULL;
    const size_t length = end ? (size_t)(end - data) : size;
    const rf_chat_template_params params = { .text = (const char *)data,
                                             .size = length,
                                             .variables = "{\"bos_token\":\"<s>\",\"n\":[1,2.5,null,{\"k\":\"v\"}]}" };
    if (rf_chat_template_create(&params, &t) < 0) {
        promise_message();
        return 0;
    }
    const rf_chat chat = { .messages = messages,
                           .num_messages = 3,
                           .json = end ? (const char *)end + 1 : NULL,
                           .json_size = end ? size - length - 1 : 0 };
    for (int prompt = 0; prompt < 2; prompt++) {
        const rf_chat_apply_params how = { .add_generation_prompt = prompt == 1 };
        if (rf_chat_template_apply(t, &chat, &how, &text, &bytes) < 0) {
            promise_message();
            continue;
        }
        PROMISE(text[bytes] == '\0' && rf_utf8_valid(text, bytes));
        rf_string_free(text);
    }
    rf_chat_template_destroy(&t);
    return 0;
}
