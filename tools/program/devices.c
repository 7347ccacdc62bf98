/* `accrue devices`: the devices that can train. */
#include "program/commands.h"
#include "common/flag_rules.h"
#include "common/json_text.h"
#include "common/message.h"
#include "common/options.h"
#include "common/text.h"

#include <accrue/device.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static int print_json(const ac_device_info *list, int count) {
  json_t *array = json_array();
  for (int i = 0; i < count; i++) {
    const ac_device_info *d = &list[i];
    json_array_append_new(
        array,
        json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:b, s:b, s:s, s:s, s:b}", "id", d->id,
                  "backend", d->backend, "name", d->name, "driver", d->driver, "memory_bytes",
                  (json_int_t)d->memory_bytes, "max_allocation_bytes",
                  (json_int_t)d->max_allocation, "alignment", (json_int_t)d->alignment,
                  "compute_units", (json_int_t)d->compute_units, "gpu", d->gpu ? 1 : 0,
                  "half_arithmetic", d->half_arithmetic ? 1 : 0, "bf16_products", d->bf16_products,
                  "refused_unit", d->refused_unit, "bf16_arithmetic", d->bf16_arithmetic ? 1 : 0));
  }
  bool whole =
      json_array_size(array) == (size_t)count && json_text_put(array, JSON_INDENT(2), stdout);
  json_decref(array);
  return whole ? STATUS_DONE : fail("cannot write the list of devices");
}

static int print_table(const ac_device_info *list, int count) {
  for (int i = 0; i < count; i++) {
    const ac_device_info *d = &list[i];
    printf("%s%s\n", i ? "\n" : "", d->id);
    message_put(stdout, "  name                %s\n", d->name);
    message_put(stdout, "  driver              %s\n", d->driver);
    printf("  %-19s %u\n", "compute units", (unsigned)d->compute_units);
    printf("  memory              %s\n",
           d->memory_bytes ? text_bytes(d->memory_bytes).text : "unknown");
    printf("  largest allocation  %s\n",
           d->max_allocation ? text_bytes(d->max_allocation).text : "no limit");
    printf("  half precision      %s\n", d->half_arithmetic ? "storage and arithmetic" : "storage");
    printf("  products of bf16    %s\n", d->bf16_products);
    if (*d->refused_unit) message_put(stdout, "  not used            %s\n", d->refused_unit);
  }
  return STATUS_DONE;
}

static int print_auto(void) {
  ac_device_info info;
  if (ac_device_find(&info, "auto") != AC_OK) return fail_library();
  printf("%s\n", info.id);
  return STATUS_DONE;
}

int devices_main(int argc, char **argv) {
  bool json = false, only_auto = false;
  options o = {.command = "devices", .summary = "Lists the devices a model can train on."};
  const option rows[] = {
      FLAG("json", OPTION_SWITCH, &json),
      FLAG("auto", OPTION_SWITCH, &only_auto),
  };
  OPTIONS_ADD(&o, rows);
  int status = options_parse(&o, argc, argv);
  if (status == STATUS_CONTINUE) status = flag_rules_check(&o);
  if (status != STATUS_CONTINUE) return status;
  if (only_auto) return print_auto();

  int count = 0, capacity;
  if (ac_device_list(NULL, 0, &count) != AC_OK) return fail_library();
  ac_device_info *list = calloc((size_t)count + 1, sizeof *list);
  if (!list) return fail("out of memory");
  capacity = count;
  if (ac_device_list(list, capacity, &count) != AC_OK) {
    free(list);
    return fail_library();
  }
  if (count > capacity) count = capacity;
  status = json ? print_json(list, count) : print_table(list, count);
  free(list);
  return status;
}
