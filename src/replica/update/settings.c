/* SPDX-License-Identifier: Apache-2.0 */
/* The settings that an update is made with, as workers compare it: whoever owns a shard updates it for all. */
#include <stdio.h>
#include <string.h>

#include "base/numbers.h"
#include "base/philox.h"
#include "replica/store/variables.h"
#include "replica/update/update.h"
#include "replica/update/updater.h"

/* ---- settings ---- */

static void hash_setting(rf_update_settings *s, const char *name, const void *value, size_t size)
{
    if (s->list) s->hash = rf_hash64(s->hash, s->index);
    s->hash = rf_hash_bytes(name, strlen(name), s->hash);
    s->hash = rf_hash_bytes(value, size, s->hash);
}

static void add_line(rf_update_settings *s, const char *name, const char *value)
{
    char prefix[64] = "";
    if (!s->wants_text || s->result < 0) return;
    if (s->list) snprintf(prefix, sizeof(prefix), "%s[%u]%s", s->list, s->index, *name ? "." : "");
    char *line = rf_asprintf("%s%s %s\n", prefix, name, value);
    const uint32_t length = line ? (uint32_t)strlen(line) : 0;
    s->result = line ? rf_array_reserve((void **)&s->text.items, &s->text.capacity, s->text.count + length, 1)
                     : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (s->result >= 0) {
        memcpy(s->text.items + s->text.count, line, length);
        s->text.count += length;
    }
    rf_free(line);
}

void rf_update_settings_number(rf_update_settings *s, const char *name, double value)
{
    char text[40];
    hash_setting(s, name, &value, sizeof(value));
    if (!s->wants_text) return;
    rf_number_print(text, sizeof(text), "%.17g", value);
    add_line(s, name, text);
}

void rf_update_settings_text(rf_update_settings *s, const char *name, const char *value)
{
    hash_setting(s, name, value, strlen(value));
    add_line(s, name, value);
}

/* ---- of an update ---- */

void rf_update_describe(const rf_update *update, rf_update_settings *settings)
{
    const rf_updater *u = update->updater;
    if (u->params.describe) u->params.describe(u->params.user, u->iterations, settings);
    rf_update_settings_number(settings, "updates", (double)u->iterations);
    rf_update_settings_number(settings, "accumulation_steps", u->params.accumulation_steps);
    rf_update_settings_number(settings, "accumulated steps", u->accumulated);
    if (u->params.scaling.initial != 0) {
        rf_update_settings_number(settings, "loss_scale.initial", (double)u->params.scaling.initial);
        rf_update_settings_number(settings, "loss_scale.growth_steps", u->params.scaling.growth_steps);
        rf_update_settings_number(settings, "loss_scale.fixed", u->params.scaling.fixed);
    }
    if (update->transform.graph)
        rf_update_settings_number(settings, "a computation on gradients", (double)(update->transform_hash >> 11));
    settings->list = "variables";
    for (settings->index = 0; settings->index < update->count; settings->index++)
        rf_update_settings_text(settings, "", update->variables[settings->index]->name);
    settings->list = NULL;
}
