/* What a run of `accrue train llm` writes: an adapter in PEFT's form, or a folder of Hugging Face's
 * form with all weights. */
#include "program/llm_kind.h"

#include "common/message.h"

#include <stdlib.h>
#include <string.h>

model_files llm_files(const void *self) {
  static const model_files adapter = {"adapter_model.safetensors", "adapter_config.json"},
                           whole = {"model.safetensors", "config.json"};
  return ((const llm_model *)self)->rank ? adapter : whole;
}
