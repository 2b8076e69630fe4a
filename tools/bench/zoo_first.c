/* SPDX-License-Identifier: Apache-2.0 */
/* ringfire-bench zoo --first-step: the first step of each network with empty caches and once more with what the first
 * time left there, each in a process of its own. The library's cache and that of Mesa lie in a new directory. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/commands.h"
#include "bench/report.h"
#include "bench/zoo.h"
#include "clock.h"
#include "folder.h"

/* ---- a process that runs one step ---- */

/* "llvmpipe...: 12 of 40 pipelines are new, created in 0.1 s" (docs/guides/observing.md). */
static void count_pipelines(void *user, rf_log_level level, const char *message)
{
    atomic_uint *count = user;
    unsigned fresh, all;
    const char *end = strstr(message, " pipelines are new"), *colon = strrchr(message, ':');
    (void)level;
    if (end && colon && sscanf(colon, ": %u of %u pipelines", &fresh, &all) == 2) atomic_fetch_add(count, fresh);
}

static rf_result first_step(zoo_net *n, const zoo_entry *e, const zoo_options *o, zoo_result *out)
{
    atomic_uint pipelines;
    struct rusage usage;
    atomic_init(&pipelines, 0);
    rf_log_set(count_pipelines, &pipelines, RF_LOG_DEBUG);
    const double began = clock_seconds();
    rf_result r = zoo_net_create(n, e, o);
    if (r == RF_OK) snprintf(out->device, sizeof(out->device), "%s", rf_strategy_device_name(n->net.strategy, 0));
    if (r == RF_OK) r = zoo_run_steps(n, 0, &out->step);
    out->first_step = clock_seconds() - began;
    out->processor = clock_processor_seconds();
    getrusage(RUSAGE_SELF, &usage);
    out->peak_bytes = (double)usage.ru_maxrss * 1024;
    rf_log_set(NULL, NULL, RF_LOG_ERROR);
    out->pipelines = atomic_load(&pipelines);
    return r;
}

int zoo_first_child(const zoo_entry *e, const zoo_options *o, zoo_result *out)
{
    zoo_net n = { 0 };
    char own[256], mesa[256];
    snprintf(own, sizeof(own), "%s/ringfire", o->cache);
    snprintf(mesa, sizeof(mesa), "%s/mesa", o->cache);
    if (setenv("RINGFIRE_CACHE", own, 1) != 0 || setenv("MESA_SHADER_CACHE_DIR", mesa, 1) != 0) return CODE_FAILED;
    unsetenv("RINGFIRE_LOG"); /* it would hide what is counted */
    const rf_result r = first_step(&n, e, o, out);
    if (r < 0) fprintf(stderr, "ringfire-bench: %s: %s\n", e->name, rf_error_message());
    zoo_net_destroy(&n, e);
    return r < 0 ? CODE_FAILED : CODE_OK;
}

/* ---- all of them ---- */

static void remove_folder(const char *path)
{
    const pid_t pid = fork();
    if (pid == 0) {
        execlp("rm", "rm", "-rf", "--", path, NULL);
        _exit(127);
    }
    int status = 0;
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    if (pid < 0 || status != 0) fprintf(stderr, "ringfire-bench: %s is left\n", path);
}

static bool add_row(const zoo_entry *e, const zoo_result *cold, const zoo_result *warm, table *rows, json_t *list)
{
    char cells[6][32];
    snprintf(cells[0], 32, "%u", cold->pipelines);
    snprintf(cells[1], 32, "%.2f", cold->first_step);
    snprintf(cells[2], 32, "%.2f", cold->processor);
    snprintf(cells[3], 32, "%.2f", warm->first_step);
    snprintf(cells[4], 32, "%.2f", warm->processor);
    snprintf(cells[5], 32, "%.0f", warm->peak_bytes * 1e-6);
    json_array_append_new(list,
                          json_pack("{s:s,s:s,s:i,s:f,s:f,s:f,s:f,s:f,s:f,s:i}", "model", e->name, "device",
                                    cold->device, "pipelines", (int)cold->pipelines, "cold_seconds", cold->first_step,
                                    "cold_processor_seconds", cold->processor, "warm_seconds", warm->first_step,
                                    "warm_processor_seconds", warm->processor, "cold_peak_bytes", cold->peak_bytes,
                                    "warm_peak_bytes", warm->peak_bytes, "warm_pipelines", (int)warm->pipelines));
    return table_row(rows, (const char *[]){ e->name, cells[0], cells[1], cells[2], cells[3], cells[4], cells[5] });
}

static bool measure_entry(const zoo_entry *e, zoo_options *o, zoo_result *shared, table *rows, json_t *list)
{
    char folder[FOLDER_SIZE];
    zoo_result *cold = malloc(sizeof(*cold));
    o->cache = folder_make(folder, &(unsigned){ 0 }) ? folder : NULL;
    bool ok = cold && o->cache;
    if (!ok) fprintf(stderr, "ringfire-bench: no memory, or no directory can be made: %s\n", strerror(errno));
    for (int warm = 0; warm < 2 && ok; warm++) {
        memset(shared, 0, sizeof(*shared));
        ok = zoo_run_entry(e, o, shared);
        if (!warm && ok) *cold = *shared;
    }
    ok = ok && add_row(e, cold, shared, rows, list);
    if (o->cache) remove_folder(o->cache);
    free(cold);
    return ok;
}

int zoo_first_steps(zoo_options *o, zoo_result *shared)
{
    static const char *const headings[] = { "Network", ">Pipelines", ">Cold s",        ">CPU s",
                                            ">Warm s", ">CPU s",     ">Peak memory MB" };
    table rows;
    json_t *list = json_array();
    bool ok = table_begin(&rows, headings, 7);
    char about[400] = "";
    for (size_t i = 0; i < zoo_num_entries; i++) {
        if (o->model && strcmp(o->model, zoo_entries[i].name) != 0) continue;
        ok = measure_entry(&zoo_entries[i], o, shared, &rows, list) && ok;
        snprintf(
            about, sizeof(about),
            "Device: %s; from opening it to the end of the first step, with empty caches (cold) and with what that "
            "left there (warm); peak: of the warm process",
            shared->device);
    }
    return bench_report(o->json_path, about, &rows, json_pack("{s:o}", "networks", list), ok);
}
