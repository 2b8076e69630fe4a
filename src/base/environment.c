/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/platform.h"

static const struct {
    const char *name, *value_form, *meaning;
} entries[] = {
    { "RINGFIRE_DEVICES", "list",
      "Devices to use where the program names none: indices (\"0,2\"), names or parts of them, UUIDs, PCI addresses, "
      "or \"all\"" },
    { "RINGFIRE_VALIDATION", "0, 1 or gpu",
      "1 loads the Vulkan validation layer with its synchronisation checks, gpu also those that it builds into "
      "shaders" },
    { "RINGFIRE_VULKAN_LIBRARY", "library",
      "Name or path of the Vulkan loader, where it has none of the usual names or none of the usual places" },
    { "RINGFIRE_CACHE", "directory", "Where compiled pipelines and tuning results are kept" },
    { "RINGFIRE_TUNE", "0 or 1", "1 measures every eligible kernel of a new operation and remembers the fastest" },
    { "RINGFIRE_OVERLAP", "0 or 1",
      "0 exchanges gradients after the backward pass instead of during it; the same on all workers" },
    { "RINGFIRE_PIN_THREADS", "0 or 1",
      "Whether the threads of llvmpipe are bound to a processor each (unless other devices or workers compute on "
      "them)" },
    { "RINGFIRE_TRACE", "file",
      "Writes a trace of the run that Perfetto shows; in a job each worker a file of its own" },
    { "RINGFIRE_STATUS", "host:port, port or directory",
      "Where the chief tells the status of its job to whoever has the key (ringfire top); in a directory a file says "
      "where, with a key of its own" },
    { "RINGFIRE_LOG", "error, warn, info or debug",
      "How much a program that shows the library's messages shows, whatever it chose itself" },
    { "RINGFIRE_TRACE_OPS", "number",
      "Times single operations on the devices in every n-th run of a program (64); 0: never" },
    { "RINGFIRE_DATA", "directory", "Where the four IDX files of an MNIST-like data set are looked for" },
    { "RINGFIRE_LIBRARY", "library",
      "Path of the shared library that the Python package loads, instead of the one beside it or an installed one" },
    { "RINGFIRE_RANK", "number", "This worker's number in its job, from 0; with RINGFIRE_WORLD_SIZE" },
    { "RINGFIRE_WORLD_SIZE", "number", "Workers of the job" },
    { "RINGFIRE_MASTER", "host:port", "Where rank 0 listens for the others; goes before what a launcher says" },
    { "RINGFIRE_LOCAL_RANK", "number", "This worker's number on its host; with RINGFIRE_LOCAL_SIZE" },
    { "RINGFIRE_LOCAL_SIZE", "number", "Workers on this host" },
    { "RINGFIRE_BIND", "address",
      "Local address that a worker listens on and announces to the others; 0.0.0.0 means all" },
    { "RINGFIRE_JOB", "name", "Name of the job; workers of another one are turned away" },
    { "RINGFIRE_RUN_ID", "text",
      "Which start of the job this is: workers of another one are turned away (ringfire run)" },
    { "RINGFIRE_EPOCH", "number", "How often the job was started again; workers of another epoch are turned away" },
    { "RINGFIRE_KEY_FILE", "file", "Job key (ringfire keygen); ~/.config/ringfire/job.key where unset" },
    { "RINGFIRE_INSECURE", "0 or 1", "1 runs without a job key: anybody who reaches the ports may join" },
    { "RINGFIRE_ENCRYPT", "0 or 1", "1 encrypts the data between workers" },
    { "RINGFIRE_PROVIDER", "name", "libfabric provider for the data between workers of different hosts" },
    { "RINGFIRE_SHARED_MEMORY", "0 or 1",
      "0 sends data between workers of one host over the network as well, instead of through memory that they share" },
    { "RINGFIRE_BOOTSTRAP_TIMEOUT", "seconds", "Until all workers must have joined (60)" },
    { "RINGFIRE_PEER_TIMEOUT", "seconds", "A worker that is silent for so long is lost (10)" },
    { "RINGFIRE_HEARTBEAT", "seconds",
      "Time between signs of life (an eighth of the peer timeout, a third above 16 workers)" },
    { "RINGFIRE_OPERATION_TIMEOUT", "seconds", "One collective operation may take so long (300)" },
    { "RANK", "number", "torchrun: this worker's number" },
    { "WORLD_SIZE", "number", "torchrun: workers of the job" },
    { "LOCAL_RANK", "number", "torchrun: this worker's number on its host" },
    { "LOCAL_WORLD_SIZE", "number", "torchrun: workers on this host" },
    { "MASTER_ADDR", "host", "torchrun: host of rank 0; with MASTER_PORT also used under Open MPI, Slurm and PMIx" },
    { "MASTER_PORT", "port", "torchrun: port of rank 0 (the one after it where torchrun itself listens there)" },
    { "TORCHELASTIC_RESTART_COUNT", "number", "torchrun: how often the job was started again" },
    { "TORCHELASTIC_USE_AGENT_STORE", "True or False", "torchrun: whether it listens on MASTER_PORT itself" },
    { "TORCHELASTIC_RUN_ID", "text", "torchrun: its --rdzv-id; workers of another run are turned away" },
    { "TF_CONFIG", "JSON", "The cluster's processes by task (chief, worker, ps, evaluator) and which one this is" },
    { "OMPI_COMM_WORLD_RANK", "number", "Open MPI: this worker's number" },
    { "OMPI_COMM_WORLD_SIZE", "number", "Open MPI: workers of the job" },
    { "OMPI_COMM_WORLD_LOCAL_RANK", "number", "Open MPI: this worker's number on its host" },
    { "OMPI_COMM_WORLD_LOCAL_SIZE", "number", "Open MPI: workers on this host" },
    { "OMPI_MCA_ess_base_jobid", "number", "Open MPI: names the job where PMIX_NAMESPACE does not" },
    { "OMPI_MCA_orte_hnp_uri", "contact", "Open MPI: host of mpirun, taken for rank 0's where PMIx cannot be asked" },
    { "SLURM_PROCID", "number", "Slurm: this task's number in its step" },
    { "SLURM_STEP_NUM_TASKS", "number", "Slurm: tasks of the step" },
    { "SLURM_NTASKS", "number", "Slurm: tasks, where SLURM_STEP_NUM_TASKS is not set" },
    { "SLURM_LOCALID", "number", "Slurm: this task's number on its host" },
    { "SLURM_NODEID", "number", "Slurm: number of the host" },
    { "SLURM_STEP_TASKS_PER_NODE", "list", "Slurm: tasks on each host of the step" },
    { "SLURM_TASKS_PER_NODE", "list", "Slurm: the same where the step's is not set" },
    { "SLURM_STEP_NODELIST", "list", "Slurm: hosts of the step; rank 0 is on the first" },
    { "SLURM_JOB_NODELIST", "list", "Slurm: hosts of the job, where the step's are not set" },
    { "SLURM_NODELIST", "list", "Slurm: older name of SLURM_JOB_NODELIST" },
    { "SLURM_JOB_ID", "number", "Slurm: number of the job; rank 0's port is derived from it" },
    { "SLURM_HET_JOB_ID", "number", "Slurm: the same for all parts of a heterogeneous job, before SLURM_JOB_ID" },
    { "SLURM_JOBID", "number", "Slurm: older name of SLURM_JOB_ID" },
    { "SLURM_STEP_ID", "number", "Slurm: number of the step; what srun did not start has none" },
    { "SLURM_STEPID", "number", "Slurm: older name of SLURM_STEP_ID" },
    { "SLURM_RESTART_COUNT", "number", "Slurm: how often the job was queued again" },
    { "PMIX_NAMESPACE", "name", "PMIx: name of the job" },
    { "PMIX_RANK", "number", "PMIx: this worker's number" },
    { "PMIX_SERVER_URI", "contact", "PMIx: where the server is; its host is taken for rank 0's at last" },
    { "PMIX_SERVER_URI41", "contact", "PMIx: the same" },
    { "PMIX_SERVER_URI4", "contact", "PMIx: the same" },
    { "PMIX_SERVER_URI3", "contact", "PMIx: the same" },
    { "PMIX_SERVER_URI2", "contact", "PMIx: the same" },
    { "XDG_CONFIG_HOME", "directory", "Base of the directory of the default job key" },
    { "RINGFIRE_TEST_PERTURB", "replica number",
      "Test aid: this replica's learning rate is wrong by one unit in the last place, as a device that rounds "
      "differently" },
    { "RINGFIRE_TEST_SLOW", "replica:factor",
      "Test aid: in training steps this replica takes `factor` times its own time, as a slower device" },
    { "RINGFIRE_TEST_MEMORY", "replica:examples",
      "Test aid: this replica's memory holds only so many examples of a step" },
    { "RINGFIRE_TEST_STAGED", "part of a name, or all",
      "Test aid: the host reaches the memory of devices whose name has this in it only through copies, as a card's" },
    { "VK_DRIVER_FILES", "list", "Vulkan's loader: manifests of the drivers; looked at to say why there is no device" },
    { "VK_ICD_FILENAMES", "list", "Vulkan's loader: older name of VK_DRIVER_FILES" },
    { "VK_LOADER_DRIVERS_SELECT", "list", "Vulkan's loader: the only drivers that it takes" },
    { "VK_LOADER_DRIVERS_DISABLE", "list", "Vulkan's loader: drivers that it leaves out" },
    { "LP_NUM_THREADS", "number",
      "Mesa: threads of lavapipe for dispatches; looked at to say where none would be faster" },
    { "NVIDIA_DRIVER_CAPABILITIES", "list", "NVIDIA's container tools: what of the driver is in the container" },
    { "XDG_CACHE_HOME", "directory", "Base of the cache directory where RINGFIRE_CACHE is unset" },
    { "HOME", "directory",
      "Base of the directories of cache and job key where XDG_CACHE_HOME and XDG_CONFIG_HOME are unset" },
};

const char *rf_env(const char *name)
{
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        if (strcmp(entries[i].name, name) != 0) continue;
        const char *value = getenv(name);
        return value && value[0] ? value : NULL;
    }
    return NULL;
}
