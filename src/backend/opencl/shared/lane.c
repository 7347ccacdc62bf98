/* A queue for a second thread, which moves views while kernels run, and marks: events in the queue
 * of kernels that it asks for without waiting. It calls nothing that a kernel's arguments or
 * programs depend on, so it needs no lock. */
#include "backend/opencl/shared/opencl.h"

#include <stdlib.h>

#include "core/error.h"

typedef struct lane {
  ac_opencl *cl;
  cl_command_queue queue;
  cl_event *marks; /* NULL: has passed, or was never set */
  int count;
} lane;

ac_status ac_cl_open_lane(void *state, int marks, void **opened) {
  ac_opencl *cl = state;
  cl_int error = CL_OUT_OF_HOST_MEMORY;
  lane *made = calloc(1, sizeof *made);
  *opened = NULL;
  if (!made) return ac_cl_fail(cl, error, "a second queue");
  *made = (lane){.cl = cl, .marks = calloc((size_t)marks + 1, sizeof(cl_event)), .count = marks};
  if (made->marks) made->queue = clCreateCommandQueue(cl->context, cl->device, 0, &error);
  if (error != CL_SUCCESS) {
    ac_cl_close_lane(made);
    return ac_cl_fail(NULL, error, "clCreateCommandQueue");
  }
  *opened = made;
  return AC_OK;
}

static void drop(lane *b, int mark) {
  if (b->marks[mark]) clReleaseEvent(b->marks[mark]);
  b->marks[mark] = NULL;
}

void ac_cl_close_lane(void *opened) {
  lane *b = opened;
  if (!b) return;
  for (int i = 0; b->marks && i < b->count; i++) drop(b, i);
  if (b->queue) {
    ac_cl_note_error(b->cl, clFinish(b->queue));
    clReleaseCommandQueue(b->queue);
  }
  free(b->marks);
  free(b);
}

/* Nobody waits for the queue of kernels, so it is handed to the device here. */
ac_status ac_cl_mark(void *opened, int mark) {
  lane *b = opened;
  drop(b, mark);
  cl_int error = clEnqueueMarkerWithWaitList(b->cl->queue, 0, NULL, &b->marks[mark]);
  if (error == CL_SUCCESS) error = clFlush(b->cl->queue);
  return error == CL_SUCCESS ? AC_OK : ac_cl_fail(b->cl, error, "clEnqueueMarkerWithWaitList");
}

/* The queue waits for an event that has come: so its transfers see what kernels have written. */
ac_status ac_cl_has_passed(void *opened, int mark, bool *passed) {
  lane *b = opened;
  cl_int stage = CL_COMPLETE;
  *passed = true;
  if (!b->marks[mark]) return AC_OK;
  cl_int error =
      clGetEventInfo(b->marks[mark], CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof stage, &stage, NULL);
  if (error == CL_SUCCESS && stage < 0) error = stage;
  if (error == CL_SUCCESS && stage != CL_COMPLETE) {
    *passed = false;
    return AC_OK;
  }
  if (error == CL_SUCCESS) error = clEnqueueBarrierWithWaitList(b->queue, 1, &b->marks[mark], NULL);
  drop(b, mark);
  return error == CL_SUCCESS ? AC_OK : ac_cl_fail(b->cl, error, "the queued work");
}

ac_status ac_cl_lane_upload(void *opened, void *handle, uint64_t offset, const void *data,
                            uint64_t bytes) {
  const lane *b = opened;
  if (bytes == 0) return AC_OK;
  const cl_int error =
      clEnqueueWriteBuffer(b->queue, handle, CL_TRUE, offset, bytes, data, 0, NULL, NULL);
  return error == CL_SUCCESS ? AC_OK : ac_cl_fail(b->cl, error, "upload");
}

ac_status ac_cl_lane_download(void *opened, const void *handle, uint64_t offset, void *data,
                              uint64_t bytes) {
  const lane *b = opened;
  if (bytes == 0) return AC_OK;
  const cl_int error =
      clEnqueueReadBuffer(b->queue, (cl_mem)handle, CL_TRUE, offset, bytes, data, 0, NULL, NULL);
  return error == CL_SUCCESS ? AC_OK : ac_cl_fail(b->cl, error, "download");
}
