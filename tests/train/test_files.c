/* SPDX-License-Identifier: Apache-2.0 */
/* Files of every kind are written alike: under a temporary name, with the mode that the umask leaves, synced, renamed.
 * Files that killed writers left are removed by the next one, what others are writing is not. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <ringfire/interchange.h>

#include "base/platform.h"
#include "test_folder.h"
#include "tests/room.h"
#include "train/files/onnx.h"

static rf_strategy *strategy;
static rf_model *model;

static rf_result write_archive(const char *path)
{
    float values[100] = { 1 };
    return rf_archive_save(path, &(rf_archive_tensor){ "x", RF_F32, RF_SHAPE(100), values }, 1, NULL);
}

static rf_result write_safetensors(const char *path)
{
    float values[100] = { 1 };
    return rf_safetensors_write(path, &(rf_named_array){ "x", { RF_F32, RF_SHAPE(100), values } }, 1);
}

static rf_result write_npy(const char *path)
{
    float values[100] = { 1 };
    return rf_npy_write(path, &(rf_array){ RF_F32, RF_SHAPE(100), values });
}

static rf_result write_bytes(const char *path)
{
    static const char bytes[400];
    return rf_file_write_atomic(path, bytes, sizeof(bytes));
}

static rf_result write_weights(const char *path)
{
    return rf_model_save_weights(model, path, NULL);
}

static rf_result write_model(const char *path)
{
    return rf_model_save(model, path, NULL);
}

static rf_result write_graph(const char *path)
{
    return rf_model_export(model, path, NULL);
}

static rf_result write_onnx(const char *path)
{
    return rf_model_export_onnx(model, path);
}

static rf_result write_model_safetensors(const char *path)
{
    return rf_model_export_safetensors(model, path);
}

static const struct writer {
    const char *name;
    rf_result (*write)(const char *path);
    bool of_model;
} writers[] = {
    { "archive", write_archive, false },
    { "safetensors", write_safetensors, false },
    { "npy", write_npy, false },
    { "bytes", write_bytes, false },
    { "weights", write_weights, true },
    { "model", write_model, true },
    { "graph", write_graph, true },
    { "onnx", write_onnx, true },
    { "exported weights", write_model_safetensors, true },
};
enum { NUM_WRITERS = sizeof(writers) / sizeof(writers[0]) };

static void put_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static uint32_t count_files(void)
{
    DIR *dir = opendir(folder);
    uint32_t count = 0;
    assert_non_null(dir);
    for (const struct dirent *e; (e = readdir(dir));) count += e->d_name[0] != '.';
    closedir(dir);
    return count;
}

/* ---- leftovers ---- */

static const struct leftover {
    const char *format; /* of host, process */
    uint32_t host;      /* besides this one */
    long process;       /* 0: this one; 4194999 is none on Linux */
    long age;           /* seconds */
    bool goes;
} leftovers[] = {
    { "same.tmp-%08x-%ld-0", 0, 4194999, 0, true },
    { "another-17.rfck.tmp-%08x-%ld-12", 0, 4194999, 0, true },
    { "x.rfck.part-00001-of-00002-0-1-2.tmp-%08x-%ld-0", 0, 4194999, 0, true },
    { "written-here.tmp-%08x-%ld-0", 0, 0, 200000, false },
    { "of-another-host.tmp-%08x-%ld-0", 1, 4194999, 80000, false },
    { "given-up-by-another-host.tmp-%08x-%ld-0", 1, 4194999, 90000, true },
    { "somebody's.tmp-%08x-%ld", 0, 4194999, 90000, false },
    { "somebody's.tmp-%08x-%ld-0.bak", 0, 4194999, 90000, false },
    { "notes.tmp-2024", 0, 0, 200000, false },
};
enum { NUM_LEFTOVERS = sizeof(leftovers) / sizeof(leftovers[0]) };

static void leftover_path(const struct leftover *l, char path[256])
{
    char name[128];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(name, sizeof(name), l->format, rf_file_host() + l->host, l->process ? l->process : (long)getpid());
#pragma GCC diagnostic pop
    snprintf(path, 256, "%s/%s", folder, name);
}

static void alike(const struct writer *w)
{
    char path[256];
    struct stat status;
    const mode_t before = umask(027);
    for (int i = 0; i < NUM_LEFTOVERS; i++) {
        leftover_path(&leftovers[i], path);
        put_text(path, "half");
        const time_t then = time(NULL) - leftovers[i].age;
        assert_int_equal(utimensat(AT_FDCWD, path, (struct timespec[]){ { then, 0 }, { then, 0 } }, 0), 0);
    }
    const char *file = in_folder("same");
    OK(w->write(file));
    umask(before);
    assert_int_equal(stat(file, &status), 0);
    if ((status.st_mode & 07777) != 0640) fail_msg("%s: mode %o", w->name, status.st_mode);
    for (int i = 0; i < NUM_LEFTOVERS; i++) {
        leftover_path(&leftovers[i], path);
        if ((access(path, F_OK) != 0) != leftovers[i].goes)
            fail_msg("%s: %s %s", w->name, path, leftovers[i].goes ? "is left" : "was removed");
        (void)unlink(path);
    }
    assert_int_equal(count_files(), 1);

    /* A full disk leaves the file that was there, and nothing else. */
    struct rlimit limit, few;
    char text[8] = "";
    put_text(file, "before");
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    few = (struct rlimit){ 30, limit.rlim_max };
    void (*const handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &few), 0);
    const rf_result r = w->write(file);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    signal(SIGXFSZ, handler);
    if (r != RF_ERROR_IO) fail_msg("%s: %s", w->name, rf_result_name(r));
    FILE *f = fopen(file, "r");
    assert_non_null(f);
    assert_non_null(fgets(text, sizeof(text), f));
    fclose(f);
    assert_string_equal(text, "before");
    assert_int_equal(count_files(), 1);
    assert_int_equal(unlink(file), 0);
}

TEST(all_alike)
{
    for (int i = 0; i < NUM_WRITERS; i++)
        if (!writers[i].of_model) alike(&writers[i]);
}

TEST(models_alike)
{
    if (!model) SKIP("not installed: llvmpipe");
    for (int i = 0; i < NUM_WRITERS; i++)
        if (writers[i].of_model) alike(&writers[i]);
}

/* ---- what is on the disk ---- */

static char order[64];
static int directory_fd;

static int note_create(void *user, const char *path)
{
    strcat(order, "create ");
    return rf_system_file_ops.create(user, path);
}

static int note_open_directory(void *user, const char *path)
{
    return directory_fd = rf_system_file_ops.open_directory(user, path);
}

static int note_fsync(void *user, int fd)
{
    strcat(order, fd == directory_fd ? "sync-directory " : "sync ");
    return rf_system_file_ops.fsync(user, fd);
}

static int note_rename(void *user, const char *from, const char *to)
{
    strcat(order, "rename ");
    return rf_system_file_ops.rename(user, from, to);
}

TEST(onnx_is_synced)
{
    if (!model) SKIP("not installed: llvmpipe");
    rf_inference_graph g;
    rf_file_ops ops = rf_system_file_ops;
    ops.create = note_create;
    ops.open_directory = note_open_directory;
    ops.fsync = note_fsync;
    ops.rename = note_rename;
    OK(rf_inference_graph_of_model(model, &g));
    OK(rf_onnx_write(&g, &ops, in_folder("m.onnx")));
    rf_inference_graph_free(&g);
    assert_string_equal(order, "create sync rename sync-directory ");
}

static int set_up(void **state)
{
    strategy = open_devices("llvmpipe");
    if (strategy) model = run_model(strategy, 4);
    return make_folder(state);
}

static int tear_down(void **state)
{
    rf_model_destroy(&model);
    rf_strategy_destroy(&strategy);
    return remove_folder(state);
}

TESTS(files, set_up, tear_down)
