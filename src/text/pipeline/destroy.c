/* SPDX-License-Identifier: Apache-2.0 */
#include "text/pipeline/pipeline.h"

void rf_pipeline_destroy(rf_pipeline **pipeline)
{
    rf_pipeline *p = *pipeline;
    *pipeline = NULL;
    if (!p) return;
    rf_steps_free(&p->normalizers);
    rf_steps_free(&p->pre_tokenizers);
    rf_steps_free(&p->decoders);
    rf_token_model_free(&p->model);
    rf_added_tokens_free(&p->added);
    rf_templates_free(p);
    rf_free(p->source);
    rf_arena_free(&p->arena);
    rf_free(p);
}
