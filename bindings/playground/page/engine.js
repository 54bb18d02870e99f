// The engine: WebAssembly in this page. Messages are JSON, both ways.

async function loadEngine() {
  const text = atob(document.getElementById("engine").textContent);
  const packed = new Blob([Uint8Array.from(text, letter => letter.charCodeAt(0))]);
  const stream = packed.stream().pipeThrough(new DecompressionStream("gzip"));
  const bytes = await new Response(stream).arrayBuffer();
  const { instance } = await WebAssembly.instantiate(bytes, {});
  const { memory, tollgate_question, tollgate_answer, tollgate_answer_bytes } = instance.exports;
  const bytesAt = (address, length) => new Uint8Array(memory.buffer, address >>> 0, length >>> 0);
  return question => {
    const message = new TextEncoder().encode(JSON.stringify(question));
    const room = tollgate_question(message.length);
    if (room === 0) throw new Error("that is too much at once");
    bytesAt(room, message.length).set(message);
    const answer = tollgate_answer();
    return JSON.parse(new TextDecoder().decode(bytesAt(answer, tollgate_answer_bytes())));
  };
}
