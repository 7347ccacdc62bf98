/* The OpenCL backend: its table, opening a device, memory and transfers.
 *
 * A device has one in-order queue, and two more if something is transferred while it computes
 * (transfers.c). Chunks are buffers, views are sub-buffers of them, so that GEMM libraries see
 * offset 0. Whatever is queued on different views of one chunk runs in the order of the calls. */
#include "backend/opencl/product/gemm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/hash.h"

/* ---- devices --------------------------------------------------------------------------------- */

/* Reductions and tiles need work-groups of 64 items and 32 KiB of local memory; all but exotic
 * devices have them. */
static ac_status choose_group(ac_opencl *cl) {
  size_t items = 0, sizes[8] = {0};
  cl_ulong local = 0;
  clGetDeviceInfo(cl->device, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof items, &items, NULL);
  clGetDeviceInfo(cl->device, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof sizes, sizes, NULL);
  clGetDeviceInfo(cl->device, CL_DEVICE_LOCAL_MEM_SIZE, sizeof local, &local, NULL);
  cl->group = items >= 256 && sizes[0] >= 256 && sizes[1] >= 16 ? 256 : 64;
  if (items < 64 || sizes[0] < 64 || sizes[1] < 8 || local < 32768)
    return ac_fail(AC_ERROR_UNSUPPORTED,
                   "opencl: %s has work-groups of %zu items and %llu bytes of local memory; 64 and "
                   "32768 are needed",
                   cl->info.name, items, (unsigned long long)local);
  return AC_OK;
}

/* A hash of everything that a driver's update may change. */
static uint64_t identify(cl_platform_id platform, cl_device_id device) {
  const cl_device_info of_device[] = {CL_DEVICE_NAME, CL_DEVICE_VENDOR, CL_DEVICE_VERSION,
                                      CL_DRIVER_VERSION};
  char text[1024];
  size_t length = 0;
  uint64_t hash = AC_HASH_BEGIN;
  for (int i = 0; i < 4; i++)
    if (clGetDeviceInfo(device, of_device[i], sizeof text, text, &length) == CL_SUCCESS)
      hash = ac_hash(hash, text, length);
  if (clGetPlatformInfo(platform, CL_PLATFORM_VERSION, sizeof text, text, &length) == CL_SUCCESS)
    hash = ac_hash(hash, text, length);
  return hash;
}

/* On a CPU our own tiles are several times as fast, and CLBlast takes PoCL seconds to compile. */
static bool clblast_wanted(const ac_opencl *cl) {
#ifdef AC_HAVE_CLBLAST
  const char *choice = getenv("ACCRUE_CLBLAST");
  return choice && *choice ? strcmp(choice, "0") != 0 : !cl->cpu;
#else
  (void)cl;
  return false;
#endif
}

static bool tuning_wanted(const ac_opencl *cl) {
  const char *choice = getenv("ACCRUE_TUNE");
  return choice && *choice ? strcmp(choice, "0") != 0 : !cl->cpu;
}

/* Kernels for CPUs are others than those for GPUs. */
static bool is_cpu(cl_device_id device) {
  const char *choice = getenv("ACCRUE_OPENCL_CPU");
  cl_device_type type = 0;
  if (choice && *choice) return strcmp(choice, "0") != 0;
  clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof type, &type, NULL);
  return type & CL_DEVICE_TYPE_CPU;
}

/* Items of a kernel of elements along a dimension: half of what 32 bits can count, or what a test
 * wants. */
static int64_t items_wanted(void) {
  const char *choice = getenv("ACCRUE_OPENCL_ITEMS");
  const int64_t most = choice ? strtoll(choice, NULL, 10) : 0;
  return most > 0 ? most : (int64_t)1 << 31;
}

/* GPUs divide by approximation unless they are told otherwise; the mean of equal values is not that
 * value then. The compilers for CPUs met so far round exactly without being told. */
static bool can_round_division(cl_device_id device) {
  cl_device_fp_config config = 0;
  clGetDeviceInfo(device, CL_DEVICE_SINGLE_FP_CONFIG, sizeof config, &config, NULL);
  return config & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT;
}

static ac_status make_queue(ac_opencl *cl, cl_platform_id platform) {
  AC_TRY(ac_cl_context_acquire(platform, cl->device, &cl->context));
  cl_int error;
  cl->queue = clCreateCommandQueue(cl->context, cl->device, 0, &error);
  return error == CL_SUCCESS ? AC_OK : ac_cl_fail(cl, error, "clCreateCommandQueue");
}

/* And all that was made in its context. */
static void release_queue(ac_opencl *cl) {
  if (cl->queue) ac_cl_note_error(cl, clFinish(cl->queue));
  ac_cl_release_transfers(cl);
  for (int i = 0; i < cl->kernel_count; i++) clReleaseKernel(cl->kernels[i].kernel);
  free(cl->kernels);
  cl->kernels = NULL;
  cl->kernel_count = cl->kernel_capacity = 0;
  ac_cl_programs_release(cl);
  if (cl->queue) clReleaseCommandQueue(cl->queue);
  if (cl->context) ac_cl_context_release(cl->context);
  cl->queue = NULL;
  cl->context = NULL;
}

static void opencl_close(void *state) {
  ac_opencl *cl = state;
  if (!cl) return;
  release_queue(cl);
  free(cl);
}

static ac_status open_device(ac_opencl *cl, int index) {
  cl_platform_id platform = NULL;
  AC_TRY(ac_cl_device_at(index, &platform, &cl->device));
  AC_TRY(ac_cl_device_describe(index, &cl->info));
  AC_TRY(choose_group(cl));
  cl->identity = identify(platform, cl->device);
  char name[128] = "";
  clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name - 1, name, NULL);
  cl->cpu = is_cpu(cl->device);
  cl->rounds_division = !cl->cpu && can_round_division(cl->device);
  cl->cache_programs = ac_cl_cache_wanted(name);
  cl->clblast = clblast_wanted(cl);
  cl->tune = tuning_wanted(cl);
  cl->most_items = items_wanted();
  AC_TRY(make_queue(cl, platform));
  if (ac_cl_unit_find(cl)) return AC_OK;
  release_queue(cl);
  return make_queue(cl, platform);
}

static ac_status opencl_open(void **state, int index, const ac_device_desc *desc,
                             ac_device_info *info) {
  ac_opencl *cl = calloc(1, sizeof *cl);
  if (!cl) return ac_fail(AC_ERROR_MEMORY, "opencl: no memory for a device");
  cl->log = desc->log;
  cl->log_user = desc->log_user;
  cl->op = "open";
  ac_status status = open_device(cl, index);
  if (status != AC_OK) {
    opencl_close(cl);
    return status;
  }
  *info = cl->info;
  *state = cl;
  return AC_OK;
}

/* What matrix units do, which are tried for that. */
static ac_status opencl_examine(int index, ac_device_info *info) {
  cl_platform_id platform = NULL;
  cl_device_id device = NULL;
  AC_TRY(ac_cl_device_at(index, &platform, &device));
  if (!ac_cl_unit_wanted(device)) return AC_OK;
  const ac_kept_error kept = ac_error_keep();
  void *state = NULL;
  if (opencl_open(&state, index, &(ac_device_desc){0}, info) == AC_OK) opencl_close(state);
  ac_error_restore(&kept);
  return AC_OK;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Drivers also return CL_OUT_OF_RESOURCES if a device's memory is full; then the context is still
 * usable. */
static ac_status allocation_failure(const ac_opencl *cl, cl_int error, uint64_t bytes) {
  char text[32];
  const char *name = ac_cl_error_name(error);
  if (error != CL_OUT_OF_RESOURCES) ac_cl_note_error(cl, error);
  return ac_fail(AC_ERROR_MEMORY, "opencl: no %s on %s: %s",
                 ac_format_bytes(text, sizeof text, bytes), cl->info.name,
                 name ? name : "unknown error");
}

static ac_status opencl_allocate(void *state, uint64_t bytes, void **chunk) {
  ac_opencl *cl = state;
  char text[32];
  if (bytes > cl->info.max_allocation)
    return ac_fail(AC_ERROR_MEMORY, "opencl: %s is more than one allocation on %s may hold",
                   ac_format_bytes(text, sizeof text, bytes), cl->info.name);
  cl_int error;
  cl_mem buffer = clCreateBuffer(cl->context, CL_MEM_READ_WRITE, bytes ? bytes : 1, NULL, &error);
  if (error != CL_SUCCESS) return allocation_failure(cl, error, bytes);
  cl->objects++;
  *chunk = buffer;
  /* Many drivers take memory at a buffer's first use; it is to be had now or not at all. */
  error = clEnqueueMigrateMemObjects(cl->queue, 1, &buffer, CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED,
                                     0, NULL, NULL);
  if (error == CL_SUCCESS) error = clFinish(cl->queue);
  if (error == CL_SUCCESS) return AC_OK;
  clReleaseMemObject(buffer);
  *chunk = NULL;
  return allocation_failure(cl, error, bytes);
}

/* NVIDIA's driver (580) crashes if one of several sub-buffers of a buffer is released before those
 * that were made later. So a released view stays until all later ones of its chunk are also
 * released. */
typedef struct ac_cl_view {
  cl_mem buffer;
  void *chunk;
  bool given_back;
  struct ac_cl_view *older;
} ac_cl_view;

static void release_newest_views(ac_opencl *cl, const void *chunk) {
  for (ac_cl_view **link = &cl->newest_view; *link;) {
    ac_cl_view *view = *link;
    if (view->chunk != chunk) {
      link = &view->older;
      continue;
    }
    if (!view->given_back) return;
    *link = view->older;
    clReleaseMemObject(view->buffer);
    free(view);
  }
}

static void opencl_release(void *state, void *chunk, uint64_t bytes) {
  (void)state;
  (void)bytes;
  if (chunk) clReleaseMemObject(chunk);
}

static ac_status opencl_view(void *state, void *chunk, uint64_t offset, uint64_t bytes,
                             void **handle) {
  ac_opencl *cl = state;
  const cl_buffer_region region = {offset, bytes};
  ac_cl_view *view = malloc(sizeof *view);
  if (!view) return ac_fail(AC_ERROR_MEMORY, "opencl: no memory for a view");
  cl_int error;
  *view = (ac_cl_view){.chunk = chunk, .older = cl->newest_view};
  view->buffer =
      clCreateSubBuffer(chunk, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &error);
  if (error != CL_SUCCESS) {
    free(view);
    return ac_cl_fail(cl, error, "clCreateSubBuffer");
  }
  cl->newest_view = view;
  cl->objects++;
  *handle = view->buffer;
  return AC_OK;
}

static void opencl_release_view(void *state, void *handle) {
  ac_opencl *cl = state;
  ac_cl_view *view = cl->newest_view;
  while (view && view->buffer != handle) view = view->older;
  if (!view) return;
  view->given_back = true;
  release_newest_views(cl, view->chunk);
}

static ac_status opencl_upload(void *state, void *handle, uint64_t offset, const void *data,
                               uint64_t bytes) {
  ac_opencl *cl = state;
  if (bytes == 0) return AC_OK;
  cl_int error =
      clEnqueueWriteBuffer(cl->queue, handle, CL_TRUE, offset, bytes, data, 0, NULL, NULL);
  return error == CL_SUCCESS ? AC_OK : ac_cl_fail(cl, error, "upload");
}

static ac_status opencl_download(void *state, const void *handle, uint64_t offset, void *data,
                                 uint64_t bytes) {
  ac_opencl *cl = state;
  if (bytes == 0) return AC_OK;
  cl_int error =
      clEnqueueReadBuffer(cl->queue, (cl_mem)handle, CL_TRUE, offset, bytes, data, 0, NULL, NULL);
  return error == CL_SUCCESS ? AC_OK : ac_cl_fail(cl, error, "download");
}

static ac_status opencl_zero(void *state, void *handle, uint64_t bytes) {
  ac_opencl *cl = state;
  cl->op = "zero";
  return ac_cl_zero(cl, handle, bytes);
}

static ac_status opencl_copy(void *state, void *destination, const void *source, uint64_t bytes) {
  ac_opencl *cl = state;
  cl->op = "copy";
  return ac_cl_copy(cl, destination, source, bytes);
}

static ac_status opencl_finish(void *state) {
  ac_opencl *cl = state;
  const cl_int run = clFinish(cl->queue), transfers = ac_cl_finish_transfers(cl),
               error = run == CL_SUCCESS ? transfers : run;
  return error == CL_SUCCESS ? AC_OK : ac_cl_fail(cl, error, "the queued work");
}

static uint64_t opencl_objects(void *state) {
  return ((ac_opencl *)state)->objects;
}

static uint64_t opencl_library_bytes(void *state) {
  (void)state;
  return 0;
}

/* ---- ops ------------------------------------------------------------------------------------- */

#define AC_CL_DECLARE(name, in, out) extern const ac_cl_op ac_cl_op_##name;
AC_OP_LIST(AC_CL_DECLARE)
#undef AC_CL_DECLARE

static const ac_cl_op *const ops[AC_OP_COUNT] = {
#define AC_CL_ENTRY(name, in, out) [AC_OP_##name] = &ac_cl_op_##name,
    AC_OP_LIST(AC_CL_ENTRY)
#undef AC_CL_ENTRY
};

/* Kernels count rows, columns and positions in 32 bits, elements in 64. */
static bool dimensions_fit(const ac_operand *x) {
  return ac_rows(x) <= INT32_MAX && ac_columns(x) <= INT32_MAX;
}

static bool opencl_supports(void *state, const ac_op_args *args) {
  (void)state;
  if (!ac_op_dtypes_valid(args, 0, 0)) return false;
  for (int i = 0; i < AC_MAX_INPUTS; i++)
    if (args->in[i].count && !dimensions_fit(&args->in[i])) return false;
  for (int i = 0; i < AC_MAX_OUTPUTS; i++)
    if (args->out[i].count && !dimensions_fit(&args->out[i])) return false;
  const ac_cl_op *op = ops[args->op];
  return !op->fits || op->fits(args);
}

/* What ops take from the state rather than from their arguments. */
static void take_up(ac_opencl *cl, const ac_op_args *args) {
  cl->op = ac_op_name(args->op);
  cl->storage = ac_op_storage(args);
  cl->mark_flushed = args->run && args->run->mark_flushed;
}

static uint64_t opencl_workspace(void *state, const ac_op_args *args) {
  ac_opencl *cl = state;
  take_up(cl, args);
  const ac_cl_op *op = ops[args->op];
  return op->workspace ? op->workspace(cl, args) : 0;
}

static bool is_joined(const ac_opencl *cl, const ac_op_args *args) {
  const ac_cl_op *op = ops[args->op];
  return op->run_joined && op->joins(cl, args);
}

static ac_status opencl_prepare(void *state, const ac_op_args *args) {
  ac_opencl *cl = state;
  const ac_cl_op *op = ops[args->op];
  take_up(cl, args);
  cl->preparing = true;
  ac_status status = op->run(cl, args);
  if (status == AC_OK && is_joined(cl, args)) status = op->run_joined(cl, &args, 1);
  cl->preparing = false;
  return status;
}

static ac_status opencl_run(void *state, const ac_op_args *args) {
  ac_opencl *cl = state;
  take_up(cl, args);
  return ops[args->op]->run(cl, args);
}

/* Ops that one launch will run. */
typedef struct joined {
  const ac_op_args *args[AC_CL_JOINED];
  int count;
} joined;

static ac_status run_joined(ac_opencl *cl, joined *j) {
  const int count = j->count;
  j->count = 0;
  if (count <= 1) return count ? opencl_run(cl, j->args[0]) : AC_OK;
  take_up(cl, j->args[0]);
  return ops[j->args[0]->op]->run_joined(cl, j->args, count);
}

static bool is_alike(const ac_operand *x, const ac_operand *y) {
  return x->count ? y->count && x->dtype == y->dtype : !y->count;
}

static bool are_alike(const ac_op_args *x, const ac_op_args *y) {
  bool alike = x->op == y->op;
  for (int i = 0; i < AC_MAX_INPUTS; i++) alike = alike && is_alike(&x->in[i], &y->in[i]);
  for (int j = 0; j < AC_MAX_OUTPUTS; j++) alike = alike && is_alike(&x->out[j], &y->out[j]);
  return alike;
}

/* If there are more kinds than this, one of them is run to make room, each in turn. */
enum { KINDS = 4 };

static joined *find_kind(joined kinds[KINDS], const ac_op_args *args) {
  for (int k = 0; k < KINDS; k++)
    if (kinds[k].count && are_alike(kinds[k].args[0], args)) return &kinds[k];
  for (int k = 0; k < KINDS; k++)
    if (!kinds[k].count) return &kinds[k];
  return NULL;
}

static ac_status join(ac_opencl *cl, joined kinds[KINDS], int *next, const ac_op_args *args) {
  joined *j = find_kind(kinds, args);
  if (!j) {
    j = &kinds[*next];
    *next = (*next + 1) % KINDS;
    AC_TRY(run_joined(cl, j));
  }
  j->args[j->count++] = args;
  return j->count == AC_CL_JOINED ? run_joined(cl, j) : AC_OK;
}

static ac_status opencl_run_all(void *state, const ac_op_args *args, int count) {
  ac_opencl *cl = state;
  joined kinds[KINDS] = {{{NULL}, 0}};
  int next = 0;
  for (int i = 0; i < count; i++)
    AC_TRY(is_joined(cl, &args[i]) ? join(cl, kinds, &next, &args[i]) : opencl_run(cl, &args[i]));
  for (int k = 0; k < KINDS; k++) AC_TRY(run_joined(cl, &kinds[k]));
  return AC_OK;
}

const ac_backend ac_backend_opencl = {
    .version = AC_BACKEND_VERSION,
    .name = "opencl",
    .compiles = true,
    .count = ac_cl_device_count,
    .describe = ac_cl_device_describe,
    .explain = ac_cl_device_explain,
    .examine = opencl_examine,
    .open = opencl_open,
    .close = opencl_close,
    .allocate = opencl_allocate,
    .release = opencl_release,
    .view = opencl_view,
    .release_view = opencl_release_view,
    .upload = opencl_upload,
    .download = opencl_download,
    .zero = opencl_zero,
    .copy = opencl_copy,
    .allocate_host = ac_cl_allocate_host,
    .release_host = ac_cl_release_host,
    .transfer_in = ac_cl_transfer_in,
    .transfer_out = ac_cl_transfer_out,
    .order = ac_cl_order,
    .open_lane = ac_cl_open_lane,
    .close_lane = ac_cl_close_lane,
    .mark = ac_cl_mark,
    .has_passed = ac_cl_has_passed,
    .lane_upload = ac_cl_lane_upload,
    .lane_download = ac_cl_lane_download,
    .supports = opencl_supports,
    .workspace = opencl_workspace,
    .prepare = opencl_prepare,
    .run = opencl_run,
    .run_all = opencl_run_all,
    .finish = opencl_finish,
    .objects = opencl_objects,
    .library_bytes = opencl_library_bytes,
};
