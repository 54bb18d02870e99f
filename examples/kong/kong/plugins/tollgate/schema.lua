-- The settings of the plugin, in kong.yaml.

local typedefs = require "kong.db.schema.typedefs"

return {
  name = "tollgate",
  fields = {
    { protocols = typedefs.protocols_http },
    { config = {
      type = "record",
      fields = {
        { urls = { type = "array", required = true, len_min = 1, elements = typedefs.url } },
        { open = { type = "boolean", required = true, default = false } },
        { headers = { type = "array", required = true, default = {}, elements = { type = "string" } } },
      },
    } },
  },
}
