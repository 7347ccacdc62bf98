/* What another project does with the installed library. */
#include <accrue/accrue.h>
#include <stdio.h>

int main(void) {
  ac_device *device = NULL;
  if (ac_device_open(&device, &(ac_device_desc){.name = "cpu"}) != AC_OK) {
    fprintf(stderr, "%s\n", ac_last_error());
    return 1;
  }
  printf("accrue %s on %s\n", ac_version(), ac_device_get_info(device)->name);
  ac_device_close(device);
  return 0;
}
