/* SPDX-License-Identifier: Apache-2.0 */
/* ringfire top: a running job, as its chief tells it. */
#include "top/top.h"

#include <stdlib.h>
#include <string.h>

#include <ringfire/status.h>

#include "clock.h"
#include "commands.h"
#include "json_output.h"
#include "options.h"
#include "text.h"

enum { OPTION_RUN = 1000, OPTION_ONCE, OPTION_KEY_FILE, OPTION_INSECURE, OPTION_INTERVAL, OPTION_TIMEOUT };

static const struct argp_option options[] = {
    { "run", OPTION_RUN, "DIR", 0, "The job that was started with RINGFIRE_STATUS=DIR, on this host", 0 },
    { "once", OPTION_ONCE, NULL, 0, "Print one block and end, on a terminal, too", 0 },
    { "interval", OPTION_INTERVAL, "SECONDS", 0, "Time between two looks (1)", 0 },
    { "timeout", OPTION_TIMEOUT, "SECONDS", 0,
      "How long the chief may take to answer, and be away before the view ends (5)", 0 },
    { "key-file", OPTION_KEY_FILE, "FILE", 0, "The job's key, for HOST:PORT (RINGFIRE_KEY_FILE, else the default key)",
      1 },
    { "insecure", OPTION_INSECURE, NULL, 0, "The job at HOST:PORT has no key", 1 },
    JSON_OPTION,
    { 0 },
};

typedef struct arguments {
    rf_status_params from;
    const char *json_path;
    double interval;
    bool once;
} arguments;

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    arguments *a = state->input;
    switch (key) {
    case OPTION_RUN: a->from.directory = text; return 0;
    case OPTION_ONCE: a->once = true; return 0;
    case OPTION_KEY_FILE: a->from.key_file = text; return 0;
    case OPTION_INSECURE: a->from.insecure = true; return 0;
    case OPTION_INTERVAL: a->interval = option_seconds(state, "--interval", text, 0.1); return 0;
    case OPTION_TIMEOUT: a->from.timeout = option_seconds(state, "--timeout", text, 0.1); return 0;
    case 'j': a->json_path = text ? text : "-"; return 0;
    case ARGP_KEY_ARG:
        if (a->from.address) argp_error(state, "'%s' is a second job; look at one", text);
        a->from.address = text;
        return 0;
    case ARGP_KEY_END:
        if (!a->from.address && !a->from.directory)
            argp_error(state, "name the job: HOST:PORT or --run DIR, as RINGFIRE_STATUS was when it was started");
        if (a->from.address && a->from.directory) argp_error(state, "give HOST:PORT or --run DIR, not both");
        if (a->from.directory && (a->from.key_file || a->from.insecure))
            argp_error(state, "--run has its own key; --key-file and --insecure are for HOST:PORT");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* NULL after a failure of the library's. */
static json_t *read_status(const arguments *a)
{
    char *text;
    if (rf_status_read(&a->from, &text) < 0) return NULL;
    json_t *status = json_loads(text, 0, NULL);
    rf_string_free(text);
    /* The chief has shown the key, and its library made the text. */
    return status ? status : json_object();
}

static bool show_once(const arguments *a)
{
    json_t *status = read_status(a);
    if (!status) {
        (void)command_fail();
        return false;
    }
    if (!json_replaces_text(a->json_path)) top_print(stdout, status, text_columns(stdout), 0);
    const bool ok = json_write(a->json_path, a->json_path ? json_incref(status) : NULL);
    json_decref(status);
    return ok;
}

/* Draws until the user leaves or the job has been away for as long as it may take to answer. The last view stays on
 * the terminal. */
static bool show_live(const arguments *a, top_screen *screen)
{
    json_t *status = read_status(a), *next = json_incref(status);
    double heard = clock_seconds();
    char note[1200] = "";
    bool away = false;
    while (status && !away) {
        top_screen_draw(screen, status, next ? NULL : note);
        if (!top_screen_wait(screen, a->interval)) break;
        json_decref(next);
        next = read_status(a);
        if (next) {
            json_decref(status);
            status = json_incref(next);
            heard = clock_seconds();
        } else {
            snprintf(note, sizeof(note), "no answer for %.0f s: %s", clock_seconds() - heard, rf_error_message());
            away = clock_seconds() - heard > a->from.timeout;
        }
    }
    top_screen_close(screen);
    if (status)
        top_print(stdout, status, text_columns(stdout), 0);
    else
        (void)command_fail();
    if (away) fprintf(stderr, "%s: the view ends: %s\n", program_name(), note);
    const bool ok = status != NULL;
    json_decref(next);
    json_decref(status);
    return ok;
}

int command_top(int argc, char **argv)
{
    const struct argp parser = { options,
                                 parse_option,
                                 "[HOST:PORT]",
                                 "Shows a running job: workers, devices, speed, values, shares, the latest checkpoint "
                                 "and warnings. The job has to be started with RINGFIRE_STATUS in its environment. On "
                                 "a terminal the view follows the job until q or Ctrl-C; elsewhere it is one block.",
                                 NULL,
                                 NULL,
                                 NULL };
    arguments a = { .interval = 1, .from.timeout = 5 };
    command_parse(&parser, argc, argv, 0, &a);
    if (!json_can_write(a.json_path)) return CODE_FAILED;
    top_screen *screen = a.once || a.json_path ? NULL : top_screen_open();
    return (screen ? show_live(&a, screen) : show_once(&a)) ? CODE_OK : CODE_FAILED;
}
