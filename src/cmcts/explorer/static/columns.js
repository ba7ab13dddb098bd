// What Python's `pack` wrote, as typed arrays by name.

const KINDS = { f4: Float32Array, i4: Int32Array, u2: Uint16Array, u1: Uint8Array };

async function unpack(packed) {
  const text = atob(packed.data);
  const bytes = new Uint8Array(text.length);
  for (let k = 0; k < text.length; k++) bytes[k] = text.charCodeAt(k);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const buffer = await new Response(stream).arrayBuffer();
  const arrays = {};
  let offset = 0;
  for (const [name, kind, length] of packed.columns) {
    arrays[name] = new KINDS[kind](buffer, offset, length);
    offset += arrays[name].byteLength;
  }
  return arrays;
}
