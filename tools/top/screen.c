/* SPDX-License-Identifier: Apache-2.0 */
/* A terminal that is drawn over in place, with the sequences of ANSI X3.64 that all of them know. */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "text.h"
#include "top/top.h"

#define ENTER "\033[?1049h\033[?25l" /* the other screen, no cursor */
#define LEAVE "\033[?25h\033[?1049l"
#define HOME "\033[H"
#define REST_OF_LINE "\033[K"
#define REST_OF_SCREEN "\033[J"

struct top_screen {
    struct termios before;
    bool has_keys; /* standard input is a terminal: q is heard */
    const json_t *status;
    const char *note;
};

static volatile sig_atomic_t ended, resized;

static void on_signal(int number)
{
    if (number == SIGWINCH)
        resized = 1;
    else
        ended = 1;
}

top_screen *top_screen_open(void)
{
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGWINCH };
    const char *kind = getenv("TERM");
    if (!isatty(STDOUT_FILENO) || !kind || !*kind || strcmp(kind, "dumb") == 0) return NULL;
    top_screen *s = calloc(1, sizeof(*s));
    if (!s) return NULL;
    const struct sigaction action = { .sa_handler = on_signal }; /* waits end with a signal */
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) sigaction(signals[i], &action, NULL);
    s->has_keys = tcgetattr(STDIN_FILENO, &s->before) == 0;
    struct termios keys = s->before;
    keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    if (s->has_keys) tcsetattr(STDIN_FILENO, TCSANOW, &keys);
    fputs(ENTER, stdout);
    fflush(stdout);
    return s;
}

void top_screen_close(top_screen *s)
{
    if (!s) return;
    fputs(LEAVE, stdout);
    fflush(stdout);
    if (s->has_keys) tcsetattr(STDIN_FILENO, TCSANOW, &s->before);
    free(s);
}

static int screen_rows(void)
{
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : 24;
}

/* Each line replaces what stood there, so that nothing flickers. The last line of the screen stays free: a new line
 * there would move all others. */
static void draw_view(const top_screen *s)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) return;
    const int columns = text_columns(stdout), rows = screen_rows() - 1;
    if (s->note) {
        print_cut(out, s->note, columns);
        fputc('\n', out);
    }
    top_print(out, s->status, columns, rows - (s->note != NULL));
    fclose(out);
    fputs(HOME, stdout);
    for (const char *line = text; line && *line;) {
        const size_t length = strcspn(line, "\n");
        printf("%.*s" REST_OF_LINE "\n", (int)length, line);
        line += length + (line[length] == '\n');
    }
    fputs(REST_OF_SCREEN, stdout);
    fflush(stdout);
    free(text);
}

void top_screen_draw(top_screen *s, const json_t *status, const char *note)
{
    s->status = status;
    s->note = note;
    draw_view(s);
}

/* Keys that came. False: one of them ends the view, or nobody can press any more. */
static bool take_keys(top_screen *s)
{
    char keys[64];
    const ssize_t count = read(STDIN_FILENO, keys, sizeof(keys));
    if (count == 0) s->has_keys = false;
    return count <= 0 || (!memchr(keys, 'q', (size_t)count) && !memchr(keys, 'Q', (size_t)count));
}

bool top_screen_wait(top_screen *s, double seconds)
{
    const double until = clock_seconds() + seconds;
    for (double left = seconds; left > 0 && !ended; left = until - clock_seconds()) {
        struct pollfd key = { .fd = s->has_keys ? STDIN_FILENO : -1, .events = POLLIN };
        if (poll(&key, 1, (int)(left * 1000) + 1) > 0 && !take_keys(s)) return false;
        if (!resized) continue;
        resized = 0;
        draw_view(s);
    }
    return !ended;
}
