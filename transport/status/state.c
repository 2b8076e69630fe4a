/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/status/state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <ringfire/version.h>

#include "base/numbers.h"

void rf_status_pace_between(const rf_status_sample *from, const rf_status_sample *to, uint32_t num_replicas,
                            rf_status_pace *out)
{
    const double seconds = to->seconds - from->seconds;
    double all = 0, ever = 0;
    for (uint32_t r = 0; r < num_replicas; r++) {
        all += (double)(to->examples[r] - from->examples[r]);
        ever += (double)to->examples[r];
    }
    for (uint32_t r = 0; r < num_replicas; r++) {
        const double part = all > 0 ? (double)(to->examples[r] - from->examples[r]) : (double)to->examples[r];
        out->shares[r] = ever > 0 ? part / (all > 0 ? all : ever) : 0;
    }
    out->examples_per_second = seconds > 0 ? all / seconds : 0;
    out->steps_per_second = seconds > 0 ? (double)(to->steps - from->steps) / seconds : 0;
}

void rf_status_merge_values(rf_status_progress *progress, const rf_status_progress *older)
{
    for (uint32_t i = 0; i < older->num_values && progress->num_values < RF_STATUS_VALUES; i++) {
        uint32_t k = 0;
        while (k < progress->num_values && strcmp(progress->values[k].name, older->values[i].name) != 0) k++;
        if (k == progress->num_values) progress->values[progress->num_values++] = older->values[i];
    }
}

double rf_status_remaining(const rf_status_progress *p, double steps_per_second)
{
    if (!p->known || p->num_epochs == 0 || p->batches_per_epoch == 0 || steps_per_second <= 0) return -1;
    const double done = (double)p->epoch * (double)p->batches_per_epoch + (double)p->batch;
    return fmax((double)p->num_epochs * (double)p->batches_per_epoch - done, 0) / steps_per_second;
}

/* ---- text ---- */

static json_t *number_json(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/* Names of devices and files may be anything. */
static json_t *text_json(const char *bytes)
{
    json_t *made = json_string(bytes);
    if (made) return made;
    char plain[RF_STATUS_PATH];
    size_t i = 0;
    for (; bytes[i] && i < sizeof(plain) - 1; i++) plain[i] = (unsigned char)bytes[i] < 0x80 ? bytes[i] : '?';
    plain[i] = '\0';
    return json_string(plain);
}

static json_t *workers_json(const rf_status_members *m)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < m->num_workers; i++)
        json_array_append_new(list,
                              json_pack("{s:I,s:o,s:I}", "rank", (json_int_t)i, "address",
                                        text_json(m->workers[i].address), "host", (json_int_t)m->workers[i].host));
    return list;
}

static json_t *replicas_json(const rf_status_state *s)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < s->members.num_replicas; i++)
        json_array_append_new(list, json_pack("{s:I,s:I,s:o,s:o}", "replica", (json_int_t)i, "rank",
                                              (json_int_t)s->members.replicas[i].rank, "device",
                                              text_json(s->members.replicas[i].device), "share",
                                              number_json(s->pace.shares[i])));
    return list;
}

static json_t *progress_json(const rf_status_state *s)
{
    const rf_status_progress *p = &s->progress;
    if (!p->known) return json_null();
    const double remaining = rf_status_remaining(p, s->pace.steps_per_second);
    json_t *values = json_object();
    for (uint32_t i = 0; i < p->num_values; i++) {
        json_t *name = text_json(p->values[i].name);
        json_object_set_new(values, json_string_value(name), number_json(p->values[i].value));
        json_decref(name);
    }
    return json_pack("{s:I,s:o,s:I,s:o,s:o,s:o}", "epoch", (json_int_t)p->epoch, "epochs",
                     p->num_epochs ? json_integer(p->num_epochs) : json_null(), "batch", (json_int_t)p->batch,
                     "batches", p->batches_per_epoch ? json_integer((json_int_t)p->batches_per_epoch) : json_null(),
                     "remaining_seconds", remaining < 0 ? json_null() : number_json(remaining), "values", values);
}

static json_t *warnings_json(const rf_log_recent *w)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < w->num_texts; i++) json_array_append_new(list, text_json(w->texts[i]));
    return json_pack("{s:I,s:o}", "count", (json_int_t)w->count, "latest", list);
}

char *rf_status_text(const rf_status_state *s)
{
    json_t *checkpoint = s->checkpoint[0] ? json_pack("{s:o,s:o}", "path", text_json(s->checkpoint), "age_seconds",
                                                      number_json(s->checkpoint_age))
                                          : json_null();
    json_t *all = json_pack("{s:s,s:o,s:o,s:I,s:o,s:o,s:I,s:I,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "version",
                            rf_version_string(), "program", text_json(s->program), "host", text_json(s->host),
                            "process", (json_int_t)s->process, "seconds", number_json(s->seconds), "idle_seconds",
                            number_json(s->idle_seconds), "steps", (json_int_t)s->steps, "examples",
                            (json_int_t)s->examples, "steps_per_second", number_json(s->pace.steps_per_second),
                            "examples_per_second", number_json(s->pace.examples_per_second), "workers",
                            workers_json(&s->members), "replicas", replicas_json(s), "progress", progress_json(s),
                            "checkpoint", checkpoint, "warnings", warnings_json(&s->warnings));
    char *made = NULL;
    if (all) RF_WITH_C_NUMBERS(made = json_dumps(all, JSON_COMPACT));
    json_decref(all);
    return made;
}
