/* The interface of the rknpu kernel driver: what its ioctls take, as its public description has it.
 *
 * The structures are the same for callers of 32 and 64 bits. Runtimes of other versions may pass
 * shorter ones; what they leave out counts as zero.
 */
#ifndef ANYNPU_DRIVER_INTERFACE_H
#define ANYNPU_DRIVER_INTERFACE_H

#include <stddef.h>
#include <stdint.h>

/* A request's number is behind DRM's 0x40 at the DRM device, and its own at /dev/rknpu. */
#define DRM_COMMAND_BASE 0x40
enum rknpu_request {
    RKNPU_ACTION,
    RKNPU_SUBMIT,
    RKNPU_CREATE,
    RKNPU_MAP,
    RKNPU_DESTROY,
    RKNPU_SYNC
};

enum rknpu_action_kind {
    GET_HARDWARE_VERSION = 0,
    GET_DRIVER_VERSION = 1,
    GET_FREQUENCY = 2,
    SET_FREQUENCY = 3,
    GET_VOLTAGE = 4,
    SET_VOLTAGE = 5,
    RESET = 6,
    GET_BANDWIDTH_PRIORITY = 7,
    SET_BANDWIDTH_PRIORITY = 8,
    GET_BANDWIDTH_EXPECTED = 9,
    SET_BANDWIDTH_EXPECTED = 10,
    GET_BANDWIDTH_WINDOW = 11,
    SET_BANDWIDTH_WINDOW = 12,
    CLEAR_AMOUNTS = 13,
    GET_AMOUNT_WRITTEN = 14,
    GET_AMOUNT_READ = 15,
    GET_WEIGHTS_READ = 16,
    GET_AMOUNT = 17,
    GET_IOMMU = 18,
    SET_NICENESS = 19,
    POWER_ON = 20,
    POWER_OFF = 21,
    GET_SRAM_SIZE = 22,
    GET_SRAM_FREE = 23,
};

struct rknpu_action {
    uint32_t kind;
    uint32_t value;
};

struct rknpu_create {
    uint32_t handle;
    uint32_t flags;
    uint64_t size;
    uint64_t object;  /* the kernel's address, by which other requests name the object */
    uint64_t address; /* as the NPU sees it */
    uint64_t sram_size;
    int32_t iommu_domain;
    uint32_t core_mask;
};

struct rknpu_map {
    uint32_t handle;
    uint32_t reserved;
    uint64_t offset; /* for mmap of the device */
};

struct rknpu_destroy {
    uint32_t handle;
    uint32_t reserved;
    uint64_t object;
};

struct rknpu_sync {
    uint32_t flags;
    uint32_t reserved;
    uint64_t object;
    uint64_t offset;
    uint64_t size;
};

#define SUB_LISTS 5

struct rknpu_sub_list {
    uint32_t start;
    uint32_t number;
};

struct rknpu_submit {
    uint32_t flags;
    uint32_t timeout; /* milliseconds */
    uint32_t task_start;
    uint32_t task_number;
    uint32_t task_counter; /* how many were done */
    int32_t priority;
    uint64_t task_object; /* whose memory holds the tasks */
    uint32_t iommu_domain;
    uint32_t reserved;
    uint64_t task_base;
    int64_t elapsed; /* nanoseconds */
    uint32_t core_mask;
    int32_t fence;
    struct rknpu_sub_list lists[SUB_LISTS]; /* each core's, of one, of two, of three */
};

enum rknpu_submit_flags {
    SUBMIT_NONBLOCK = 1 << 1,
    SUBMIT_FENCE_OUT = 1 << 4,
};

/* A task in memory, packed. */
struct rknpu_task {
    uint32_t flags;
    uint32_t operation;
    uint32_t enable_mask;
    uint32_t interrupt_mask;
    uint32_t interrupt_clear;
    uint32_t interrupt_status; /* written when the last task is done */
    uint32_t commands;
    uint32_t offset;
    uint64_t address; /* of its commands, as the NPU sees them */
} __attribute__((packed));

/* DRM's own requests. */
enum drm_request {
    DRM_VERSION = 0x00,
    DRM_GET_UNIQUE = 0x01,
    DRM_GEM_CLOSE = 0x09,
    DRM_GEM_FLINK = 0x0a,
    DRM_GEM_OPEN = 0x0b,
    DRM_HANDLE_TO_FD = 0x2d,
    DRM_FD_TO_HANDLE = 0x2e,
};

struct drm_version {
    int major, minor, patch;
    size_t name_length;
    char *name;
    size_t date_length;
    char *date;
    size_t description_length;
    char *description;
};

struct drm_unique {
    size_t length;
    char *text;
};

struct drm_handle {
    uint32_t handle;
    uint32_t padding;
};

struct drm_name {
    uint32_t handle; /* GEM_FLINK: handle, name; GEM_OPEN: name, handle, size */
    uint32_t name;
    uint64_t size;
};

struct drm_prime {
    uint32_t handle;
    uint32_t flags;
    int32_t descriptor;
};

/* A DMA heap's only request. */
#define HEAP_ALLOCATE 0

struct heap_allocation {
    uint64_t size;
    uint32_t descriptor;
    uint32_t descriptor_flags;
    uint64_t flags;
};

_Static_assert(sizeof(struct rknpu_action) == 8, "action");
_Static_assert(sizeof(struct rknpu_create) == 48, "create");
_Static_assert(offsetof(struct rknpu_create, iommu_domain) == 40, "create");
_Static_assert(sizeof(struct rknpu_map) == 16, "map");
_Static_assert(sizeof(struct rknpu_destroy) == 16, "destroy");
_Static_assert(sizeof(struct rknpu_sync) == 32, "sync");
_Static_assert(sizeof(struct rknpu_submit) == 104, "submit");
_Static_assert(offsetof(struct rknpu_submit, task_object) == 24, "submit");
_Static_assert(offsetof(struct rknpu_submit, elapsed) == 48, "submit");
_Static_assert(offsetof(struct rknpu_submit, lists) == 64, "submit");
_Static_assert(sizeof(struct rknpu_task) == 40, "task");
_Static_assert(sizeof(struct drm_version) == (sizeof(void *) == 8 ? 64 : 36), "version");
_Static_assert(sizeof(struct drm_prime) == 12, "prime");
_Static_assert(sizeof(struct drm_name) == 16, "name");
_Static_assert(sizeof(struct heap_allocation) == 24, "heap");

#endif
