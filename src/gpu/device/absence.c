/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/device/absence.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define DRIVER_ROOM (1ull << 30) /* of memory that a driver may take when it is loaded and opens a device */

static const struct vendor {
    uint32_t id;
    const char *name, *manifests[2], *package, *container; /* parts of manifests' names; how a container gets it */
} vendors[] = {
    { RF_VENDOR_AMD, "an AMD", { "radeon", "amd" }, "mesa-vulkan-drivers", "--device /dev/dri" },
    { RF_VENDOR_INTEL, "an Intel", { "intel", "intel" }, "mesa-vulkan-drivers", "--device /dev/dri" },
    { RF_VENDOR_NVIDIA,
      "an NVIDIA",
      { "nvidia", "nouveau" },
      "NVIDIA's driver with its Vulkan libraries",
      "--gpus all" },
};

static void explain_manifests(const rf_absence_facts *f, bool of_library, char *text, size_t size)
{
    for (uint32_t i = 0; i < f->num_manifests; i++) {
        const rf_absence_manifest *m = &f->manifests[i];
        if (!m->problem[0] || m->of_library != of_library) continue;
        snprintf(text, size, "the driver's manifest %s%s%s cannot be used: %s", m->path, f->named_by ? " of " : "",
                 f->named_by ? f->named_by : "", m->problem);
        return;
    }
    if (!of_library) return;
    if (f->named_by && f->num_manifests == 0)
        snprintf(text, size, "%s names no driver's manifest; correct or unset it", f->named_by);
    else if (f->filter)
        snprintf(text, size, "%s keeps the Vulkan loader from drivers; correct or unset it", f->filter);
}

static const struct vendor *find_vendor(uint32_t id)
{
    for (size_t i = 0; i < sizeof(vendors) / sizeof(vendors[0]); i++)
        if (vendors[i].id == id) return &vendors[i];
    return NULL;
}

/* By default the nodes of virtual machines' displays do not count, since few of them have a driver for Vulkan. */
static void explain_permissions(rf_absence of, const rf_absence_facts *f, char *text, size_t size)
{
    const rf_absence_node *n = NULL;
    for (uint32_t i = 0; i < f->num_nodes && !n; i++) {
        const rf_absence_node *each = &f->nodes[i];
        const bool counts = of != RF_ABSENCE_BY_DEFAULT || each->vendor == 0 || find_vendor(each->vendor);
        if (each->denied && counts) n = each;
    }
    if (!n) return;
    char fix[160] = "";
    if (n->denied == EPERM || (n->denied == EACCES && f->in_container && !n->group[0]))
        snprintf(fix, sizeof(fix), ": %s",
                 f->in_container ? "start the container with --device" : "see its permissions");
    else if (n->denied == EACCES && !n->group[0])
        snprintf(fix, sizeof(fix), ": it is root's alone");
    else if (n->denied == EACCES && n->waits_for_login)
        snprintf(fix, sizeof(fix), ": log in again, so that this user's new group %s counts", n->group);
    else if (n->denied == EACCES && f->in_container)
        snprintf(fix, sizeof(fix), ": start the container with --group-add %s", n->group);
    else if (n->denied == EACCES)
        snprintf(fix, sizeof(fix), ": add this user to the group %s (sudo usermod -aG %s $USER) and log in again",
                 n->group, n->group);
    snprintf(text, size, "%s cannot be opened (%s)%s", n->path, strerror(n->denied), fix);
}

/* In containers NVIDIA's tools put in what NVIDIA_DRIVER_CAPABILITIES lists, by default without Vulkan's driver. */
static void explain_capabilities(const rf_absence_facts *f, char *text, size_t size)
{
    bool node = false, driver = false;
    for (uint32_t i = 0; i < f->num_nodes; i++) node |= strncmp(f->nodes[i].path, "/dev/nvidia", 11) == 0;
    for (uint32_t i = 0; i < f->num_manifests; i++)
        driver |= strstr(f->manifests[i].path, "nvidia") && !f->manifests[i].problem[0];
    const char *given = f->nvidia_capabilities;
    if (!node || driver || (!given && !f->in_container)) return;
    if (given && (strstr(given, "graphics") || strstr(given, "all"))) return;
    snprintf(text, size,
             "NVIDIA_DRIVER_CAPABILITIES is %s%s%s, which leaves Vulkan's driver out of the container: start it with "
             "NVIDIA_DRIVER_CAPABILITIES=all",
             given ? "'" : "not set", given ? given : "", given ? "'" : "");
}

static bool has_node(const rf_absence_facts *f, uint32_t vendor)
{
    for (uint32_t i = 0; i < f->num_nodes; i++)
        if (f->nodes[i].vendor == vendor || f->nodes[i].vendor == 0) return true;
    return false;
}

static bool has_manifest(const rf_absence_facts *f, const struct vendor *v)
{
    for (uint32_t i = 0; i < f->num_manifests; i++) {
        const char *slash = strrchr(f->manifests[i].path, '/'), *name = slash ? slash : f->manifests[i].path;
        if (strstr(name, v->manifests[0]) || strstr(name, v->manifests[1])) return true;
    }
    return false;
}

/* A GPU on the bus that has no device file, or no driver's manifest. */
static void explain_hardware(const rf_absence_facts *f, char *text, size_t size)
{
    for (uint32_t i = 0; i < f->num_gpus && !text[0]; i++) {
        const struct vendor *v = find_vendor(f->gpus[i]);
        if (!has_node(f, v->id))
            snprintf(text, size, "there is %s GPU without a device file: %s%s", v->name,
                     f->in_container ? "start the container with " : "load its kernel driver",
                     f->in_container ? v->container : "");
        else if (!has_manifest(f, v) && f->named_by)
            snprintf(text, size, "there is %s GPU, of which %s names no driver", v->name, f->named_by);
        else if (!has_manifest(f, v))
            snprintf(text, size, "there is %s GPU without a driver for Vulkan: install %s", v->name, v->package);
    }
}

bool rf_absence_explain(rf_absence of, const rf_absence_facts *f, char *text, size_t size)
{
    text[0] = '\0';
    if (of == RF_ABSENCE_BY_DEFAULT && f->named_by) return false; /* the drivers are chosen */
    explain_manifests(f, false, text, size);
    if (!text[0] && of == RF_ABSENCE_OF_ALL) rf_memory_limits_describe(&f->limits, DRIVER_ROOM, text, size);
    if (!text[0]) explain_permissions(of, f, text, size);
    if (!text[0] && of != RF_ABSENCE_OF_ANOTHER) explain_capabilities(f, text, size);
    if (of == RF_ABSENCE_BY_DEFAULT) return text[0] != '\0';
    if (!text[0]) explain_manifests(f, true, text, size);
    if (!text[0] && of != RF_ABSENCE_OF_ANOTHER) explain_hardware(f, text, size);
    return text[0] != '\0';
}
