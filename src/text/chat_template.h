/* SPDX-License-Identifier: Apache-2.0 */
/* Chat templates, and what their files say. */
#ifndef RF_TEXT_CHAT_TEMPLATE_H
#define RF_TEXT_CHAT_TEMPLATE_H

#include <jansson.h>

#include <ringfire/text.h>

/* A template with the members of `variables`, a reference, which may be NULL. */
rf_result rf_chat_template_make(const char *text, size_t size, const rf_tokenizer *tokenizer, json_t *variables,
                                rf_chat_template **out);
/* The template and the variables of a tokenizer_config.json, borrowed from `root` and new; NULL in `text`: none. */
rf_result rf_chat_template_find(const json_t *root, const char **text, size_t *size, json_t **variables);

#endif
