#include "common/command_record.h"

#include <string.h>

const command_record *command_record_find(const char *command) {
  const char *name = *command ? command : "accrue";
  const size_t length = strcspn(name, " ");
  for (int i = 0; i < command_record_count; i++) {
    const char *own = command_records[i].name;
    if (strlen(own) == length && !memcmp(own, name, length)) return &command_records[i];
  }
  return 0;
}
