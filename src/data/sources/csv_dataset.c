/* SPDX-License-Identifier: Apache-2.0 */
/* A source of CSV files: what is asked for, and the files. */
#include <math.h>
#include <string.h>

#include "base/params.h"
#include "base/philox.h"
#include "base/platform.h"
#include "data/formats/csv.h"
#include "data/formats/inflate.h"
#include "data/pipeline.h"
#include "data/sources/files.h"

/* ---- the plan ---- */

static rf_result check_component(uint32_t number, const rf_csv_component *c, const rf_csv_params *params,
                                 rf_shape *shape)
{
    RF_REQUIRE(c->dtype == RF_F32 || c->dtype == RF_I32, "rf_dataset_from_csv: component %u is %s, not f32 or i32",
               number, rf_dtype_name(c->dtype));
    RF_REQUIRE(c->num_columns > 0, "rf_dataset_from_csv: component %u has no columns", number);
    RF_REQUIRE(!c->names || params->header,
               "rf_dataset_from_csv: component %u has columns by name, which takes a "
               "header; set params->header or give numbers",
               number);
    RF_REQUIRE(!c->names || !c->columns, "rf_dataset_from_csv: component %u has names and numbers of columns; give one",
               number);
    for (uint32_t i = 0; c->names && i < c->num_columns; i++)
        RF_REQUIRE(c->names[i], "rf_dataset_from_csv: component %u has no name of column %u", number, i);
    *shape = c->shape;
    if (shape->rank == 0 && c->num_columns > 1) *shape = RF_SHAPE((int64_t)c->num_columns);
    char text[128];
    RF_REQUIRE(shape->rank < RF_MAX_RANK && rf_shape_count(*shape) == (int64_t)c->num_columns,
               "rf_dataset_from_csv: component %u has %u columns for the shape %s", number, c->num_columns,
               rf_shape_format(*shape, text, sizeof(text)));
    RF_REQUIRE(!params->fill_empty || c->dtype == RF_F32 ||
                   (params->fill_value >= INT32_MIN && params->fill_value <= INT32_MAX &&
                    params->fill_value == floor(params->fill_value)),
               "rf_dataset_from_csv: component %u is i32, which fill_value %g is not", number, params->fill_value);
    return RF_OK;
}

static rf_result add_uses(uint32_t number, const rf_csv_component *c, rf_csv_plan *plan)
{
    for (uint32_t i = 0; i < c->num_columns; i++) {
        rf_csv_use *use = &plan->uses[plan->num_uses++];
        use->component = number;
        use->place = i;
        use->column = c->columns ? c->columns[i] : c->first_column + i;
        if (!c->names) continue;
        use->name = rf_strdup(c->names[i]);
        if (!use->name) return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    return RF_OK;
}

rf_result rf_csv_plan_make(const rf_csv_params *params, rf_csv_plan *out)
{
    *out = (rf_csv_plan){ .separator = params->separator ? params->separator : ',',
                          .header = params->header,
                          .fill_empty = params->fill_empty,
                          .skip_damaged = params->skip_damaged,
                          .fill_value = params->fill_value };
    RF_REQUIRE(params->components && params->num_components >= 1 && params->num_components <= RF_MAX_COMPONENTS,
               "rf_dataset_from_csv: %u components; give 1 to %d", params->num_components, RF_MAX_COMPONENTS);
    RF_REQUIRE(!strchr("\"\r\n", out->separator), "rf_dataset_from_csv: a quote or the end of a line cannot separate "
                                                  "columns");
    uint64_t uses = 0;
    for (uint32_t c = 0; c < params->num_components; c++) {
        RF_TRY(check_component(c, &params->components[c], params, &out->spec.shape[c]));
        out->spec.dtype[c] = params->components[c].dtype;
        uses += params->components[c].num_columns;
    }
    out->spec.num_components = params->num_components;
    out->uses = uses <= UINT32_MAX ? RF_NEW_ARRAY(rf_csv_use, uses) : NULL;
    if (!out->uses) return rf_error_context(RF_ERROR_OUT_OF_HOST_MEMORY, "rf_dataset_from_csv");
    for (uint32_t c = 0; c < params->num_components; c++) RF_TRY(add_uses(c, &params->components[c], out));
    return RF_OK;
}

void rf_csv_plan_free(rf_csv_plan *plan)
{
    for (uint32_t u = 0; u < plan->num_uses; u++) rf_free(plan->uses[u].name);
    rf_free(plan->uses);
}

/* A hash of all that decides which numbers are read from a file. */
static uint64_t hash_plan(const rf_csv_plan *plan)
{
    const uint64_t numbers[] = { (unsigned char)plan->separator, plan->header, plan->fill_empty };
    uint64_t h = rf_hash_bytes(numbers, sizeof(numbers), 0);
    h = rf_hash_bytes(&plan->fill_value, sizeof(plan->fill_value), h);
    for (uint32_t u = 0; u < plan->num_uses; u++) {
        const rf_csv_use *use = &plan->uses[u];
        h = use->name ? rf_hash_bytes(use->name, strlen(use->name), h) : rf_hash64(h, use->column);
        h = rf_hash64(h, (uint64_t)use->component << 32 | use->place);
    }
    return plan->skip_damaged ? rf_hash64(h, 1) : h;
}

/* ---- the files ---- */

typedef struct csv_list {
    rf_csv_plan plan;
    char **paths;
    uint64_t *left_out; /* rows of each file */
    uint32_t count;
} csv_list;

static void free_csv(void *user)
{
    csv_list *list = user;
    rf_csv_plan_free(&list->plan);
    for (uint32_t i = 0; i < list->count; i++) rf_free(list->paths[i]);
    rf_free(list->paths);
    rf_free(list->left_out);
    rf_free(list);
}

static rf_result read_csv(const void *user, uint32_t file, rf_array *arrays)
{
    const csv_list *list = user;
    void *bytes = NULL;
    size_t size = 0;
    RF_TRY(rf_inflate_file(list->paths[file], &bytes, &size));
    rf_csv_damage damage;
    const rf_result r = rf_csv_decode(list->paths[file], bytes, size, &list->plan, arrays, &damage);
    rf_free(bytes);
    /* The file is read once more when its rows are needed. */
    if (r == RF_OK && damage.rows != list->left_out[file])
        rf_log_message(RF_LOG_WARN, "%s: rows that are left out: %llu; the first: %s", list->paths[file],
                       (unsigned long long)damage.rows, damage.first);
    if (r == RF_OK) list->left_out[file] = damage.rows;
    return r;
}

static uint64_t count_left_out(const void *user, uint32_t file)
{
    return ((const csv_list *)user)->left_out[file];
}

static const char *name_csv(const void *user, uint32_t file)
{
    return ((const csv_list *)user)->paths[file];
}

static const rf_file_format csv_format = { read_csv, name_csv, free_csv, count_left_out };

static rf_result list_files(const rf_csv_params *params, csv_list *list)
{
    RF_TRY(rf_csv_plan_make(params, &list->plan));
    list->paths = RF_NEW_ARRAY(char *, params->num_paths);
    list->left_out = RF_NEW_ARRAY(uint64_t, params->num_paths);
    if (!list->paths || !list->left_out) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (; list->count < params->num_paths; list->count++) {
        RF_REQUIRE(params->paths[list->count], "rf_dataset_from_csv: path %u is NULL", list->count);
        list->paths[list->count] = rf_strdup(params->paths[list->count]);
        if (!list->paths[list->count]) return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    return RF_OK;
}

rf_result rf_dataset_from_csv(const rf_csv_params *params, rf_dataset **out)
{
    RF_REQUIRE(out, "rf_dataset_from_csv: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_csv_params, params));
    RF_REQUIRE(params && params->paths && params->num_paths > 0, "rf_dataset_from_csv: no files given");
    csv_list *list = RF_NEW(csv_list);
    if (!list) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const rf_result r = list_files(params, list);
    if (r < 0) {
        free_csv(list);
        return r;
    }
    return rf_dataset_from_files(&csv_format, list, params->num_paths, hash_plan(&list->plan),
                                 rf_files_hash_names(params->paths, params->num_paths), out);
}
