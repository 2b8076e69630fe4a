/* SPDX-License-Identifier: Apache-2.0 */
#include "train/files/weight_plan.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/half.h"
#include "base/memory.h"

/* ---- rules ---- */

enum { MOST_PLACES = 16 };

/* The text that a "*" of a pattern stands for. */
typedef struct place {
    const char *text;
    size_t size;
} place;

static bool is_separator(char c)
{
    return c == '/' || c == '.';
}

/* One "*" of each part, so that it can end in one way only, and one "**": matching takes no time to speak of. */
static rf_result check_pattern(const char *pattern, const char *function, uint32_t rule, uint32_t *num_places)
{
    uint32_t wide = 0, in_part = 0;
    *num_places = 0;
    for (const char *p = pattern; *p; p++) {
        if (is_separator(*p)) in_part = 0;
        if (*p != '*') continue;
        if (p[1] == '*') {
            wide++;
            p++;
        } else {
            in_part++;
        }
        ++*num_places;
        RF_REQUIRE(wide <= 1 && in_part <= 1 && p[1] != '*' && *num_places <= MOST_PLACES,
                   "%s: rules[%u]: the pattern '%s' has more than one '**', or more than one '*' between two of '/' "
                   "and '.', or more than %d of them in all",
                   function, rule, pattern, MOST_PLACES);
    }
    return RF_OK;
}

static uint32_t count_places(const char *name)
{
    uint32_t count = 0;
    for (const char *p = name; *p; p++) {
        if (*p != '*') continue;
        count++;
        if (p[1] == '*') p++;
    }
    return count;
}

static rf_result check_perm(const rf_weight_rule *rule, const char *function, uint32_t number)
{
    uint32_t seen = 0;
    RF_REQUIRE((rule->perm != NULL) == (rule->num_perm > 0) && rule->num_perm <= RF_MAX_RANK,
               "%s: rules[%u]: num_perm %u is not the number of dimensions in perm", function, number, rule->num_perm);
    for (uint32_t i = 0; i < rule->num_perm; i++) {
        const int32_t from = rule->perm[i];
        RF_REQUIRE(from >= 0 && (uint32_t)from < rule->num_perm && !(seen & 1u << from),
                   "%s: rules[%u]: perm does not name each dimension once", function, number);
        seen |= 1u << from;
    }
    return RF_OK;
}

rf_result rf_weight_rules_check(const rf_weight_rule *rules, uint32_t num_rules, const char *function)
{
    RF_REQUIRE(rules || num_rules == 0, "%s: rules is NULL but num_rules is %u", function, num_rules);
    for (uint32_t i = 0; i < num_rules; i++) {
        uint32_t places;
        RF_REQUIRE(rules[i].pattern && *rules[i].pattern, "%s: rules[%u]: pattern is empty", function, i);
        RF_TRY(check_pattern(rules[i].pattern, function, i, &places));
        RF_REQUIRE(!rules[i].name || *rules[i].name, "%s: rules[%u]: name is empty; NULL leaves the tensor out",
                   function, i);
        RF_REQUIRE(!rules[i].name || count_places(rules[i].name) <= places,
                   "%s: rules[%u]: the name '%s' has more '*' than the pattern '%s'", function, i, rules[i].name,
                   rules[i].pattern);
        RF_TRY(check_perm(&rules[i], function, i));
    }
    return RF_OK;
}

static bool match_from(const char *pattern, const char *name, place *places)
{
    for (; *pattern && *pattern != '*'; pattern++, name++)
        if (*pattern != *name) return false;
    if (!*pattern) return !*name;
    const bool any = pattern[1] == '*';
    pattern += any ? 2 : 1;
    for (size_t size = any ? 0 : 1;; size++) {
        const char last = size > 0 ? name[size - 1] : '*';
        if (!last || (!any && is_separator(last))) return false;
        *places = (place){ name, size };
        if (match_from(pattern, name + size, places + 1)) return true;
    }
}

rf_result rf_weight_rule_apply(const rf_weight_rule *rule, const char *tensor, bool *matches, char **name)
{
    place places[MOST_PLACES] = { { 0 } };
    *name = NULL;
    *matches = match_from(rule->pattern, tensor, places);
    if (!*matches || !rule->name) return RF_OK;
    char *made = rf_strdup(""), *longer;
    uint32_t n = 0;
    for (const char *p = rule->name; made && *p; made = longer) {
        if (*p == '*') {
            longer = rf_asprintf("%s%.*s", made, (int)places[n].size, places[n].text);
            p += p[1] == '*' ? 2 : 1;
            n++;
        } else {
            const size_t size = strcspn(p, "*");
            longer = rf_asprintf("%s%.*s", made, (int)size, p);
            p += size;
        }
        rf_free(made);
    }
    *name = made;
    return made ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

/* The variable's name that the first rule gives, or its own. *name NULL: it is not wanted. */
static rf_result name_tensor(const rf_load_weights_params *params, const char *tensor, const rf_weight_rule **rule,
                             char **name)
{
    for (uint32_t i = 0; i < params->num_rules; i++) {
        bool matches;
        *rule = &params->rules[i];
        RF_TRY(rf_weight_rule_apply(*rule, tensor, &matches, name));
        if (matches) return RF_OK;
    }
    *rule = NULL;
    *name = rf_strdup(tensor);
    return *name ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

/* ---- shapes ---- */

static bool tensor_fits(const rf_weight_choice *choice, rf_shape wanted)
{
    const rf_archive_entry *tensor = choice->tensor;
    const rf_weight_rule *rule = choice->rule;
    rf_shape shape = tensor->shape;
    if (tensor->dtype != RF_F32 && tensor->dtype != RF_F16 && tensor->dtype != RF_BF16) return false;
    if (rule && rule->perm) {
        if (shape.rank != (int32_t)rule->num_perm) return false;
        for (int32_t i = 0; i < shape.rank; i++) shape.dim[i] = tensor->shape.dim[rule->perm[i]];
    }
    return rule && rule->reshape ? rf_shape_count(shape) == rf_shape_count(wanted) : rf_shape_equal(shape, wanted);
}

static float number_at(const rf_archive_entry *tensor, const void *data, uint64_t index)
{
    float number;
    rf_floats_widen(&number, (const char *)data + index * rf_dtype_size(tensor->dtype), tensor->dtype, 1);
    return number;
}

void rf_weight_convert(const rf_weight_choice *choice, const void *data, float *out)
{
    const rf_archive_entry *tensor = choice->tensor;
    const rf_weight_rule *rule = choice->rule;
    const int32_t rank = tensor->shape.rank;
    const uint64_t count = (uint64_t)rf_shape_count(tensor->shape);
    uint64_t stride[RF_MAX_RANK], at[RF_MAX_RANK] = { 0 }, from = 0;
    for (int32_t i = rank - 1; i >= 0; i--)
        stride[i] = i == rank - 1 ? 1 : stride[i + 1] * (uint64_t)tensor->shape.dim[i + 1];
    for (uint64_t i = 0; i < count; i++) {
        out[i] = number_at(tensor, data, rule && rule->perm ? from : i);
        for (int32_t d = rank - 1; rule && rule->perm && d >= 0; d--) { /* the next place, last dimension first */
            const int32_t axis = rule->perm[d];
            from += stride[axis];
            if (++at[d] < (uint64_t)tensor->shape.dim[axis]) break;
            from -= at[d] * stride[axis];
            at[d] = 0;
        }
    }
}

/* ---- the plan ---- */

static rf_result choose_tensor(rf_weight_plan *plan, const rf_archive_entry *tensor, const rf_weight_rule *rule,
                               const char *name, const rf_weight_variable *variables, uint32_t num_variables,
                               bool *taken)
{
    *taken = false;
    for (uint32_t i = 0; i < num_variables && !*taken; i++) {
        if (strcmp(variables[i].name, name) != 0) continue;
        rf_weight_choice *choice = &plan->choices[i];
        RF_REQUIRE(!choice->tensor, "two tensors are for the variable '%s': '%s' and '%s'", name, choice->tensor->name,
                   tensor->name);
        *choice = (rf_weight_choice){ .tensor = tensor, .rule = rule };
        choice->outcome = tensor_fits(choice, variables[i].shape) ? RF_WEIGHT_LOADED : RF_WEIGHT_MISMATCHED;
        *taken = true;
    }
    return RF_OK;
}

static rf_result note_variable(rf_weight_plan *plan, const rf_weight_choice *choice, const rf_weight_variable *variable)
{
    char a[96], b[96], detail[256] = "";
    const rf_archive_entry *tensor = choice->tensor;
    if (choice->outcome == RF_WEIGHT_MISMATCHED)
        snprintf(detail, sizeof(detail), "%s %s%s, not f32 %s",
                 tensor->unsupported_type ? tensor->unsupported_type : rf_dtype_name(tensor->dtype),
                 tensor->unsupported_type ? "" : rf_shape_format(tensor->shape, a, sizeof(a)),
                 choice->rule && choice->rule->perm ? " before perm" : "",
                 rf_shape_format(variable->shape, b, sizeof(b)));
    return rf_weight_note_add(&plan->notes, choice->outcome, variable->name, tensor ? tensor->name : "", detail);
}

/* Variables first, so that what is left over is kept aside. */
static rf_result plan_make(const rf_archive_entry *tensors, uint64_t num_tensors, const rf_weight_variable *variables,
                           uint32_t num_variables, const rf_load_weights_params *params, rf_weight_plan *plan,
                           char **left_over)
{
    for (uint64_t i = 0; i < num_tensors; i++) {
        const rf_weight_rule *rule;
        char *name;
        bool taken = true;
        RF_TRY(name_tensor(params, tensors[i].name, &rule, &name));
        const rf_result r =
            name ? choose_tensor(plan, &tensors[i], rule, name, variables, num_variables, &taken) : RF_OK;
        if (r < 0 || taken)
            rf_free(name);
        else
            left_over[i] = name;
        RF_TRY(r);
    }
    for (uint32_t i = 0; i < num_variables; i++) RF_TRY(note_variable(plan, &plan->choices[i], &variables[i]));
    for (uint64_t i = 0; i < num_tensors; i++)
        if (left_over[i])
            RF_TRY(rf_weight_note_add(&plan->notes, RF_WEIGHT_LEFT_OVER, left_over[i], tensors[i].name, ""));
    return RF_OK;
}

rf_result rf_weight_plan_make(const rf_archive_entry *tensors, uint64_t num_tensors,
                              const rf_weight_variable *variables, uint32_t num_variables,
                              const rf_load_weights_params *params, rf_weight_plan *out)
{
    *out = (rf_weight_plan){ .choices = RF_NEW_ARRAY(rf_weight_choice, num_variables) };
    char **left_over = RF_NEW_ARRAY(char *, num_tensors);
    rf_result r = out->choices && left_over ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; r >= 0 && i < num_variables; i++) out->choices[i].outcome = RF_WEIGHT_MISSING;
    if (r >= 0) r = plan_make(tensors, num_tensors, variables, num_variables, params, out, left_over);
    for (uint64_t i = 0; left_over && i < num_tensors; i++) rf_free(left_over[i]);
    rf_free(left_over);
    if (r < 0) rf_weight_plan_free(out);
    return r;
}

void rf_weight_plan_free(rf_weight_plan *plan)
{
    rf_free(plan->choices);
    rf_weight_notes_free(&plan->notes);
    *plan = (rf_weight_plan){ 0 };
}

/* The first note of an outcome. */
static void find_note(const rf_weight_plan *plan, rf_weight_outcome outcome, const char **texts)
{
    uint32_t at = 0;
    while (rf_weight_note_take(&plan->notes, &at, texts) && texts[0][0] - '0' != (int)outcome) {}
}

rf_result rf_weight_plan_check(const rf_weight_plan *plan, const rf_load_weights_params *params, const char *path)
{
    const uint32_t *counts = plan->notes.counts;
    const char *t[4] = { "", "", "", "" };
    char more[64] = "";
    if (counts[RF_WEIGHT_MISSING] > 0 && !params->allow_missing) {
        find_note(plan, RF_WEIGHT_MISSING, t);
        if (counts[RF_WEIGHT_MISSING] > 1)
            snprintf(more, sizeof(more), ", and %u others are missing", counts[RF_WEIGHT_MISSING] - 1);
        return RF_FAIL(RF_ERROR_NOT_FOUND, "'%s' has no tensor '%s'%s", path, t[1], more);
    }
    if (counts[RF_WEIGHT_MISMATCHED] > 0 && !params->skip_mismatch) {
        find_note(plan, RF_WEIGHT_MISMATCHED, t);
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "'%s': tensor '%s' is %s as the variable '%s'", path, t[2], t[3],
                       t[1]);
    }
    if (counts[RF_WEIGHT_LEFT_OVER] > 0 && params->refuse_left_over) {
        find_note(plan, RF_WEIGHT_LEFT_OVER, t);
        if (counts[RF_WEIGHT_LEFT_OVER] > 1)
            snprintf(more, sizeof(more), ", nor %u others", counts[RF_WEIGHT_LEFT_OVER] - 1);
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "'%s': no variable is called '%s', for the tensor '%s'%s", path, t[1],
                       t[2], more);
    }
    return RF_OK;
}
