/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens of chats. */
#ifndef RF_TEXT_CHATS_H
#define RF_TEXT_CHATS_H

#include <jansson.h>

#include <ringfire/text.h>

/* Whether all that is still appended would be dropped. */
bool rf_chat_tokens_full(const rf_chat_tokens *out);
/* An object; `what` is for messages. */
rf_result rf_chat_json_parse(const char *text, size_t size, const char *what, json_t **out);

#endif
