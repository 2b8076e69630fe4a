/* SPDX-License-Identifier: Apache-2.0 */
/* sentencepiece's map of characters ("precompiled_charsmap"): a double array of what is replaced, and the texts. */
#ifndef RF_TEXT_PIPELINE_CHARSMAP_H
#define RF_TEXT_PIPELINE_CHARSMAP_H

#include "base/memory.h"
#include "text/bytes.h"

typedef struct rf_charsmap rf_charsmap;
/* `text` is base64. The map lies in the arena. */
rf_result rf_charsmap_read(rf_arena *arena, const char *text, size_t size, rf_charsmap **out);
/* Appends the text with its characters replaced: as Hugging Face's library does it, a whole grapheme of up to five
 * bytes first, then each character. */
rf_result rf_charsmap_apply(const rf_charsmap *map, const char *text, size_t size, rf_text_bytes *out);

#endif
