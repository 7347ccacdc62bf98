/* One context for all devices that are open on a piece of hardware, and what CLBlast keeps.
 *
 * CLBlast compiles a program for each context and keeps it, and thereby the context, until its
 * cache is cleared, which it can do only for all contexts at once. So a context stays when its last
 * device is closed, for a device that is opened on the same hardware later. When the last device of
 * all is closed, the cache is cleared and all contexts are released. No device loses a program that
 * it may still need.
 *
 * After some errors a context cannot be used any more. A failed context is not given to another
 * device; it is released with its last device, and the hardware's next device gets a new one.
 * Without failed ones there are never more contexts than pieces of hardware.
 *
 * CLBlast's cache belongs to the process, and so does this list; a lock protects it. */
#include "backend/opencl/shared/opencl.h"

#include <stdlib.h>

#include "core/error.h"
#include "core/platform/threads.h"

#ifdef AC_HAVE_CLBLAST
#include <clblast_c.h>
#endif

typedef struct shared {
  cl_device_id device;
  cl_context context;
  int users;
  bool failed;
  struct shared *next;
} shared;

static struct {
  ac_once made;
  ac_monitor *lock;
  shared *list;
  int users; /* of all contexts */
} contexts;

static void make_lock(void) {
  contexts.lock = ac_monitor_create();
}

static ac_status add_context(cl_platform_id platform, cl_device_id device, shared **result) {
  const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)platform,
                                              0};
  shared *made = malloc(sizeof *made);
  if (!made) return ac_fail(AC_ERROR_MEMORY, "opencl: no memory for a context");
  cl_int error;
  cl_context context = clCreateContext(properties, 1, &device, NULL, NULL, &error);
  if (error != CL_SUCCESS) {
    free(made);
    return ac_cl_fail(NULL, error, "clCreateContext");
  }
  *made = (shared){.device = device, .context = context, .next = contexts.list};
  contexts.list = *result = made;
  return AC_OK;
}

ac_status ac_cl_context_acquire(cl_platform_id platform, cl_device_id device, cl_context *context) {
  ac_call_once(&contexts.made, make_lock);
  if (!contexts.lock) return ac_fail(AC_ERROR_MEMORY, "opencl: no memory for a lock");
  ac_monitor_lock(contexts.lock);
  shared *found = contexts.list;
  while (found && (found->device != device || found->failed)) found = found->next;
  ac_status status = found ? AC_OK : add_context(platform, device, &found);
  if (status == AC_OK) {
    *context = found->context;
    found->users++;
    contexts.users++;
  }
  ac_monitor_unlock(contexts.lock);
  return status;
}

static shared **find(cl_context context) {
  shared **at = &contexts.list;
  while ((*at)->context != context) at = &(*at)->next;
  return at;
}

static void remove_context(shared **at) {
  shared *gone = *at;
  *at = gone->next;
  clReleaseContext(gone->context);
  free(gone);
}

void ac_cl_context_failed(cl_context context) {
  ac_monitor_lock(contexts.lock);
  (*find(context))->failed = true;
  ac_monitor_unlock(contexts.lock);
}

void ac_cl_context_release(cl_context context) {
  ac_monitor_lock(contexts.lock);
  shared **at = find(context);
  if (--(*at)->users == 0 && (*at)->failed) remove_context(at);
  if (--contexts.users == 0) {
#ifdef AC_HAVE_CLBLAST
    CLBlastClearCache();
#endif
    while (contexts.list) remove_context(&contexts.list);
  }
  ac_monitor_unlock(contexts.lock);
}
