// The front door of JSON Schema.
#include "text/grammar/compiled.h"
#include "text/grammar/schema_emit.h"

namespace bora::text {

Result<GrammarPtr> compile_json_schema(const Json& schema, const GrammarLimits& limits) {
  SchemaModel model(schema, limits);
  ProgramBuilder builder;
  SchemaEmitter emitter(&model, &builder);
  BORA_ASSIGN(RuleId root, emitter.document({{&schema, false}}));
  Result<Program> program = builder.finish(root);
  if (!program.ok()) return std::move(program).take_status().with_context("schema #");
  return wrap_program(std::move(program), limits);
}

}  // namespace bora::text
