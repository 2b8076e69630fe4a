/* SPDX-License-Identifier: Apache-2.0 */
/* Parameter groups: which variables belong to which, and copies of their description. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/glob.h"
#include "base/memory.h"
#include "base/params.h"
#include "trace/trace.h"
#include "train/optimizer/optimizer.h"

bool rf_parameter_group_matches(const rf_parameter_group *group, const char *name)
{
    for (const char *pattern = group->names;;) {
        const size_t length = strcspn(pattern, ",");
        if (rf_glob_matches(pattern, length, name)) return true;
        if (pattern[length] == '\0') return false;
        pattern += length + 1;
    }
}

uint32_t rf_parameter_group_of(const rf_optimizer_params *params, const char *name)
{
    for (uint32_t i = 0; i < params->num_groups; i++)
        if (rf_parameter_group_matches(&params->groups[i], name)) return i + 1;
    return 0;
}

static rf_result muon_check(const rf_muon_params *p, uint32_t index)
{
    if (!p) return RF_OK;
    RF_REQUIRE((uint32_t)p->scale <= RF_MUON_SCALE_SHAPE,
               "rf_optimizer_create: groups[%u].muon: scale %d does not exist", index, (int)p->scale);
    RF_REQUIRE(p->rms_rate >= 0.0 && isfinite(p->rms_rate),
               "rf_optimizer_create: groups[%u].muon: rms_rate %g must be finite and not negative", index, p->rms_rate);
    RF_REFUSE_ZERO(p->rms_rate, "rf_optimizer_create: rms_rate of a group",
                   "nothing would be learned; freeze a group by its rate_factor");
    RF_REQUIRE(p->rms_rate == 0.0 || p->scale == RF_MUON_SCALE_RMS,
               "rf_optimizer_create: groups[%u].muon: rms_rate is for RF_MUON_SCALE_RMS", index);
    RF_REQUIRE(p->steps <= RF_MAX_ORTHOGONAL_STEPS, "rf_optimizer_create: groups[%u].muon: %u steps, at most %d", index,
               p->steps, (int)RF_MAX_ORTHOGONAL_STEPS);
    RF_REQUIRE(p->row_dimensions < RF_MAX_RANK, "rf_optimizer_create: groups[%u].muon: %u row_dimensions, at most %d",
               index, p->row_dimensions, RF_MAX_RANK - 1);
    const bool others = p->embeddings || p->plain_momentum || p->row_dimensions > 0 || p->scale != RF_MUON_SCALE_RMS ||
                        p->rms_rate != 0.0 || p->steps > 0;
    RF_REQUIRE(!(p->adamw && others),
               "rf_optimizer_create: groups[%u].muon: adamw leaves no matrices to the other fields", index);
    return RF_OK;
}

static rf_result group_check(const rf_parameter_group *group, uint32_t index)
{
    RF_REQUIRE(group->names, "rf_optimizer_create: groups[%u].names is NULL", index);
    for (const char *pattern = group->names;;) {
        const size_t length = strcspn(pattern, ",");
        RF_REQUIRE(length > 0, "rf_optimizer_create: groups[%u].names '%.60s' has an empty pattern", index,
                   group->names);
        if (pattern[length] == '\0') break;
        pattern += length + 1;
    }
    RF_REQUIRE(group->rate_factor >= 0.0 && isfinite(group->rate_factor),
               "rf_optimizer_create: groups[%u].rate_factor %g must be finite and not negative", index,
               group->rate_factor);
    return muon_check(group->muon, index);
}

rf_result rf_parameter_groups_check(const rf_optimizer_params *params)
{
    RF_REQUIRE(params->num_groups <= RF_MAX_PARAMETER_GROUPS, "rf_optimizer_create: %u groups, at most %d",
               params->num_groups, RF_MAX_PARAMETER_GROUPS);
    RF_REQUIRE(params->groups || params->num_groups == 0, "rf_optimizer_create: groups is NULL but num_groups is %u",
               params->num_groups);
    for (uint32_t i = 0; i < params->num_groups; i++) {
        RF_TRY(group_check(&params->groups[i], i));
        RF_REQUIRE(!params->groups[i].muon || params->kind == RF_OPTIMIZER_MUON,
                   "rf_optimizer_create: groups[%u].muon is for Muon", i);
    }
    return RF_OK;
}

rf_result rf_parameter_groups_copy(const rf_parameter_group *groups, uint32_t count, rf_parameter_group **out)
{
    size_t size = count * (sizeof(*groups) + sizeof(rf_muon_params));
    *out = NULL;
    if (count == 0) return RF_OK;
    for (uint32_t i = 0; i < count; i++) size += strlen(groups[i].names) + 1;
    rf_parameter_group *copy = rf_calloc(size, 1);
    if (!copy) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_muon_params *muon = (rf_muon_params *)(copy + count);
    char *text = (char *)(muon + count);
    for (uint32_t i = 0; i < count; i++) {
        const size_t length = strlen(groups[i].names) + 1;
        copy[i] = groups[i];
        copy[i].names = memcpy(text, groups[i].names, length);
        text += length;
        if (!groups[i].muon) continue;
        muon[i] = *groups[i].muon;
        copy[i].muon = &muon[i];
    }
    *out = copy;
    return RF_OK;
}
