/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of a text on their way through the pipeline. */
#include "text/pipeline/pipeline.h"

rf_result rf_flow_begin(rf_flow *f, const rf_tokenizer *t, size_t size)
{
    f->t = t;
    f->p = t->pipeline;
    f->scratch = RF_NEW_ARRAY(rf_text_bytes, f->p->pre_tokenizers.count);
    if (!f->scratch) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < f->p->pre_tokenizers.count; i++) f->scratch[i].limit = rf_flow_limit(size);
    for (uint32_t i = 0; i < 2; i++) f->normal[i].limit = rf_flow_limit(size);
    rf_matcher_begin(&f->matcher, size);
    return RF_OK;
}

rf_result rf_flow_token(rf_flow *f, uint32_t id)
{
    RF_TRY(RF_VEC_GROW(&f->tokens));
    f->tokens.items[f->tokens.count++] = (int32_t)id;
    return RF_OK;
}

rf_result rf_flow_piece(rf_flow *f, uint32_t stage, rf_piece piece)
{
    if (piece.size == 0) return RF_OK;
    if (stage == f->p->pre_tokenizers.count) return f->p->model.type->encode(f, piece.bytes, piece.size);
    const rf_step *s = &f->p->pre_tokenizers.items[stage];
    return s->type->cut(f, s, stage, piece);
}

rf_result rf_flow_normalize(rf_flow *f, rf_piece text, rf_piece *out)
{
    for (uint32_t i = 0; i < f->p->normalizers.count; i++) {
        const rf_step *s = &f->p->normalizers.items[i];
        rf_text_bytes *made = &f->normal[i % 2];
        made->size = 0;
        RF_TRY(rf_text_bytes_reserve(made, 1));
        RF_TRY(s->type->normalize(f, s, text.bytes, text.size, made));
        text.bytes = made->bytes;
        text.size = made->size;
    }
    *out = text;
    return RF_OK;
}

void rf_flow_free(rf_flow *f)
{
    for (uint32_t i = 0; f->scratch && i < f->p->pre_tokenizers.count; i++) rf_text_bytes_free(&f->scratch[i]);
    rf_free(f->scratch);
    for (uint32_t i = 0; i < 2; i++) rf_text_bytes_free(&f->normal[i]);
    rf_text_bytes_free(&f->word);
    rf_pair_work_free(&f->pairs);
    rf_free(f->lattice.items);
    rf_free(f->tokens.items);
    rf_matcher_free(&f->matcher);
}
