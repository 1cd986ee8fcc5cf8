// The line to Python. Changes that pile up while Python works are sent as one, so a slider never queues stale steps.

const SLOW_MS = 1500;

export class Link {
  // `name` is whose view it is, for what is written to the console.
  constructor(model, onFrame, name = "widget") {
    this.name = name;
    this.model = model;
    this.view = crypto.randomUUID ? crypto.randomUUID() : String(Math.random());
    this.number = 0;
    this.busy = false;
    this.waiting = [];
    this.listeners = new Map();
    this.lastInput = 0;
    this.onFrame = onFrame;
    this.onSlow = () => {};
    this.onLost = () => {};
    this.lost = false;
    this.receive = (content, buffers) => this.#receive(content, buffers);
    this.update = () => this.#update();
    model.on("msg:custom", this.receive);
    model.on("change:frame", this.update);
  }

  get frame() {
    return this.model.get("frame");
  }

  // Settings to change; the later value of a setting wins.
  set(changes) {
    this.queue({ kind: "set", changes });
  }

  // A question that changes nothing; the answer goes to `listen`.
  ask(kind, content) {
    this.#send({ kind, ...content });
  }

  listen(kind, listener) {
    this.listeners.set(kind, listener);
  }

  // Whether a change is on its way, so that controls keep what the reader set.
  get unsettled() {
    return this.busy || this.waiting.length > 0;
  }

  close() {
    clearTimeout(this.timer);
    this.model.off("msg:custom", this.receive);
    this.model.off("change:frame", this.update);
  }

  // Any message that Python answers with a new frame; those that change settings are joined.
  queue(message) {
    this.lastInput = performance.now();
    if (this.lost) return this.onLost();
    const last = this.waiting.at(-1);
    if (message.kind === "set" && last?.kind === "set") Object.assign(last.changes, message.changes);
    else this.waiting.push(message);
    return this.#flush();
  }

  // After a restart the kernel knows this view no longer, and Jupyter throws: the reader has to be told.
  #send(message) {
    try {
      this.model.send({ ...message, view: this.view });
    } catch (error) {
      console.warn(`${this.name}:`, error);
      clearTimeout(this.timer);
      Object.assign(this, { lost: true, waiting: [] });
      this.onLost();
    }
  }

  #flush() {
    if (this.busy || this.waiting.length === 0) return;
    this.busy = true;
    this.number += 1;
    this.timer = setTimeout(() => this.onSlow(true), SLOW_MS);
    this.#send({ ...this.waiting.shift(), number: this.number });
  }

  #update() {
    if (this.busy && this.frame.ack[this.view] === this.number) {
      this.busy = false;
      clearTimeout(this.timer);
      this.onSlow(false);
      this.#flush();
    }
    this.onFrame(this.frame);
  }

  #receive(content, buffers) {
    if (content.view === this.view) this.listeners.get(content.kind)?.(content, buffers);
  }
}

// The bytes of a typed array as Jupyter delivers them: a DataView that may start anywhere in its buffer.
export function typed(Type, bytes) {
  const view = bytes.buffer ? bytes : new DataView(bytes);
  const copy = view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength);
  return new Type(copy);
}
