/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/platform.h"
#include "gpu/device/absence.h"
#include "gpu/internal.h"

/* Calls `visit` for the files of a folder, in the order of their names. */
static void folder_walk(const char *folder, void (*visit)(rf_absence_facts *f, const char *path, const char *name),
                        rf_absence_facts *f)
{
    struct dirent **list;
    const int count = scandir(folder, &list, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char path[512];
        if (list[i]->d_name[0] != '.' &&
            snprintf(path, sizeof(path), "%s/%s", folder, list[i]->d_name) < (int)sizeof(path))
            visit(f, path, list[i]->d_name);
        free(list[i]);
    }
    if (count >= 0) free(list);
}

/* ---- manifests ---- */

/* Braces that close one another, outside of strings: what an interrupted installation leaves does not have them. */
static bool is_whole_object(const char *text)
{
    int depth = 0;
    bool string = false, any = false;
    for (const char *c = text; *c; c++) {
        if (string && *c == '\\' && c[1])
            c++;
        else if (*c == '"')
            string = !string;
        else if (!string && (*c == '{' || *c == '}'))
            depth += *c == '{' ? 1 : -1;
        any |= depth > 0;
        if (depth < 0) return false;
    }
    return any && depth == 0 && !string;
}

/* The library that a manifest names, relative to it where there is a slash in it. */
static bool find_library(const char *path, const char *text, char *library, size_t size)
{
    const char *key = strstr(text, "\"library_path\""), *begin = key ? strchr(key + 14, '"') : NULL;
    if (!begin || !is_whole_object(text)) return false;
    const int length = (int)strcspn(begin + 1, "\""),
              folder = (int)(strrchr(path, '/') ? strrchr(path, '/') - path : 0);
    const bool relative = begin[1] != '/' && memchr(begin + 1, '/', (size_t)length);
    return snprintf(library, size, "%.*s%s%.*s", relative ? folder : 0, path, relative ? "/" : "", length, begin + 1) <
           (int)size;
}

static void look_at_manifest(rf_absence_facts *f, const char *path)
{
    if (f->num_manifests == RF_ABSENCE_MANIFESTS) return;
    rf_absence_manifest *m = &f->manifests[f->num_manifests];
    *m = (rf_absence_manifest){ .path = "" };
    snprintf(m->path, sizeof(m->path), "%s", path);
    void *text;
    size_t length;
    char library[512];
    if (rf_file_read(path, 1u << 20, &text, &length) < 0) {
        rf_error_info info;
        rf_error_get(&info);
        snprintf(m->problem, sizeof(m->problem), "%s",
                 info.native_code ? strerror((int)info.native_code) : "it is no regular file");
        f->num_manifests++;
        return;
    }
    const bool found = find_library(path, text, library, sizeof(library));
    rf_free(text);
    f->num_manifests++;
    if (!found) {
        snprintf(m->problem, sizeof(m->problem), "it is no JSON object that names a library; reinstall the driver");
        return;
    }
    void *handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
    const char *why = handle ? NULL : dlerror();
    if (handle) dlclose(handle);
    if (!why) return;
    m->of_library = true;
    snprintf(m->problem, sizeof(m->problem), "%s", why);
    if (strstr(why, "wrong ELF class")) f->num_manifests--; /* another architecture's, which the loader passes over */
}

/* The loader takes such files alone from a folder. */
static void look_at_entry(rf_absence_facts *f, const char *path, const char *name)
{
    const char *dot = strrchr(name, '.');
    if (dot && strcmp(dot, ".json") == 0) look_at_manifest(f, path);
}

/* As the loader does: files, or folders of them. */
static void look_at_list(rf_absence_facts *f, const char *list)
{
    for (const char *at = list; *at;) {
        char path[512];
        struct stat st;
        const size_t length = strcspn(at, ":");
        snprintf(path, sizeof(path), "%.*s", (int)length, at);
        if (path[0] && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
            folder_walk(path, look_at_entry, f);
        else if (path[0])
            look_at_manifest(f, path);
        at += length + (at[length] == ':');
    }
}

static void look_at_folders(rf_absence_facts *f)
{
    static const char *const folders[] = { "/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d",
                                           "/usr/share/vulkan/icd.d" };
    char own[512];
    const char *home = rf_env("HOME");
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) folder_walk(folders[i], look_at_entry, f);
    if (home && snprintf(own, sizeof(own), "%s/.local/share/vulkan/icd.d", home) < (int)sizeof(own))
        folder_walk(own, look_at_entry, f);
}

/* ---- device files ---- */

/* The group's name, or its number where the system knows none; whether this user is listed in it. */
static void look_at_group(gid_t id, rf_absence_node *n)
{
    char group_text[4096], user_text[4096];
    struct group group, *has_group = NULL;
    struct passwd user, *has_user = NULL;
    snprintf(n->group, sizeof(n->group), "%u", (unsigned)id);
    if (getgrgid_r(id, &group, group_text, sizeof(group_text), &has_group) != 0 || !has_group) return;
    snprintf(n->group, sizeof(n->group), "%s", group.gr_name);
    (void)getpwuid_r(geteuid(), &user, user_text, sizeof(user_text), &has_user);
    for (char **member = group.gr_mem; has_user && *member; member++)
        n->waits_for_login |= strcmp(*member, user.pw_name) == 0;
}

static uint32_t read_hexadecimal(const char *path)
{
    char text[32] = "";
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    const ssize_t n = read(fd, text, sizeof(text) - 1);
    close(fd);
    return n > 0 ? (uint32_t)strtoul(text, NULL, 16) : 0;
}

static void look_at_node(rf_absence_facts *f, const char *path, const char *name)
{
    struct stat st;
    if (f->num_nodes == RF_ABSENCE_NODES || stat(path, &st) != 0) return;
    rf_absence_node *n = &f->nodes[f->num_nodes++];
    *n = (rf_absence_node){ .vendor = strncmp(name, "nvidia", 6) == 0 ? RF_VENDOR_NVIDIA : 0 };
    snprintf(n->path, sizeof(n->path), "%s", path);
    char vendor[512];
    if (!n->vendor && snprintf(vendor, sizeof(vendor), "/sys/class/drm/%s/device/vendor", name) < (int)sizeof(vendor))
        n->vendor = read_hexadecimal(vendor);
    const int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    n->denied = fd < 0 ? errno : 0;
    if (fd >= 0) close(fd);
    if (n->denied && st.st_gid != 0) look_at_group(st.st_gid, n);
}

/* Looks at a device of a GPU's kernel driver, which Vulkan's drivers open. */
static void look_at_device(rf_absence_facts *f, const char *path, const char *name)
{
    const bool nvidia =
        strcmp(name, "nvidiactl") == 0 || (strncmp(name, "nvidia", 6) == 0 && isdigit((unsigned char)name[6]));
    if (nvidia || strcmp(name, "kgsl-3d0") == 0 || strcmp(name, "mali0") == 0 || strcmp(name, "dxg") == 0)
        look_at_node(f, path, name);
}

static void look_at_render_node(rf_absence_facts *f, const char *path, const char *name)
{
    if (strncmp(name, "renderD", 7) == 0) look_at_node(f, path, name);
}

static void look_at_bus(rf_absence_facts *f, const char *path, const char *name)
{
    (void)name;
    char file[600];
    snprintf(file, sizeof(file), "%s/class", path);
    if (read_hexadecimal(file) >> 16 != 3 || f->num_gpus == RF_ABSENCE_GPUS) return; /* display controllers */
    snprintf(file, sizeof(file), "%s/vendor", path);
    const uint32_t vendor = read_hexadecimal(file);
    if (vendor == RF_VENDOR_AMD || vendor == RF_VENDOR_INTEL || vendor == RF_VENDOR_NVIDIA)
        f->gpus[f->num_gpus++] = vendor;
}

/* Docker and Podman leave a file; what has its root on an overlay is a container of others. */
static bool is_in_container(void)
{
    if (access("/.dockerenv", F_OK) == 0 || access("/run/.containerenv", F_OK) == 0) return true;
    void *text;
    size_t length;
    if (rf_file_read("/proc/self/mountinfo", 1u << 20, &text, &length) < 0) return false;
    const char *root = strstr(text, " / / "), *type = root ? strstr(root, " - ") : NULL;
    const bool overlay = type && strncmp(type, " - overlay", 10) == 0;
    rf_free(text);
    return overlay;
}

void rf_absence_take_facts(rf_absence of, rf_absence_facts *out)
{
    rf_error_record before; /* files that are not there are no failures here */
    rf_error_save(&before);
    *out = (rf_absence_facts){ .nvidia_capabilities = rf_env("NVIDIA_DRIVER_CAPABILITIES") };
    const char *const named[] = { "VK_DRIVER_FILES", "VK_ICD_FILENAMES" };
    const char *const filters[] = { "VK_LOADER_DRIVERS_SELECT", "VK_LOADER_DRIVERS_DISABLE" };
    for (int i = 1; i >= 0; i--) {
        if (rf_env(named[i])) out->named_by = named[i];
        if (rf_env(filters[i])) out->filter = filters[i];
    }
    rf_gpu_lock_drivers();
    if (of == RF_ABSENCE_BY_DEFAULT)
        out->num_manifests = 0;
    else if (out->named_by)
        look_at_list(out, rf_env(out->named_by));
    else
        look_at_folders(out);
    rf_gpu_unlock_drivers();
    folder_walk("/dev/dri", look_at_render_node, out);
    folder_walk("/dev", look_at_device, out);
    folder_walk("/sys/bus/pci/devices", look_at_bus, out);
    out->in_container = is_in_container();
    rf_memory_limits_take(&out->limits);
    (void)rf_error_restore(&before);
}

rf_result rf_absence_add_cause(rf_absence of, rf_result result)
{
    char cause[768];
    rf_absence_facts *facts = malloc(sizeof(*facts));
    rf_error_record record;
    rf_error_save(&record);
    if (facts) rf_absence_take_facts(of, facts);
    if (facts && rf_absence_explain(of, facts, cause, sizeof(cause)))
        rf_error_set(result, record.info.native_domain, record.info.native_code, record.info.file, record.info.line,
                     "%.*s; likely cause: %s", (int)(sizeof(record.message) - sizeof(cause)), record.message, cause);
    free(facts);
    return result;
}
