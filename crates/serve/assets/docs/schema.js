// Schemas as rows of a table: name, type and limits of each field.

/** A schema with its reference resolved; keys beside a reference override those of its target. */
export function resolved(schema, description) {
  if (!schema?.$ref) return schema ?? {};
  const found = schema.$ref
    .slice(2)
    .split("/")
    .reduce((node, name) => node[name], description);
  const { $ref: _, ...own } = schema;
  return { ...resolved(found, description), ...own };
}

/** The fields of an object as `{ name, type, limits, isRequired, text }`, each followed by its nested fields. */
export function rows(schema, description, prefix = "", depth = 0) {
  const own = resolved(schema, description);
  if (depth > 3) return [];
  if (own.type === "array") return rows(own.items, description, `${prefix}[]`, depth);
  const found = [];
  for (const [name, field] of Object.entries(own.properties ?? {})) {
    const path = prefix ? `${prefix}.${name}` : name;
    const full = resolved(field, description);
    found.push({
      name: path,
      type: typeText(field, description),
      limits: limits(field, description),
      isRequired: (own.required ?? []).includes(name),
      text: full.description ?? "",
    });
    const [inner] = (full.oneOf ?? [full]).map((one) => rows(one, description, path, depth + 1));
    found.push(...(inner ?? []));
  }
  return found;
}

/** `string`, `integer or null`, `array of strings`, … */
export function typeText(schema, description) {
  const own = resolved(schema, description);
  const choices = own.oneOf ?? own.anyOf;
  if (choices) return choices.map((one) => typeText(one, description)).join(" or ");
  const types = [own.type ?? "value"].flat().filter((type) => type !== "null");
  const named = types.map((type) => (type === "array" ? `array of ${typeText(own.items, description)}` : type));
  return named.length ? named.join(" or ") : "null";
}

/** The limits of a field as texts; empty if there are none. */
export function limits(schema, description) {
  const own = resolved(schema, description);
  const choices = own.oneOf ?? own.anyOf;
  if (choices) return [...new Set(choices.flatMap((one) => limits(one, description)))];
  const found = [];
  if (own.enum) found.push(`one of ${own.enum.filter((value) => value !== null).join(", ")}`);
  if (own.minimum !== undefined && own.maximum !== undefined) found.push(`${own.minimum} to ${own.maximum}`);
  else if (own.minimum !== undefined) found.push(`at least ${own.minimum}`);
  if (own.maxLength !== undefined) found.push(`up to ${own.maxLength} characters`);
  if (own.maxItems !== undefined) found.push(`up to ${own.maxItems} items`);
  if (own.pattern) found.push(own.pattern);
  if (own.default !== undefined) found.push(`default: ${JSON.stringify(own.default)}`);
  return found;
}
