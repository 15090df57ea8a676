/* Search without a server: a browser starts no Worker from a file, so here one lives in a hidden frame instead.
   Only the theme's search uses it, and only on file: pages; elsewhere the browser's own Worker stays. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      document.body.appendChild(frame);
      const room = frame.contentWindow;
      room.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.room = room;
      this.ready = new Promise((done) => {
        const script = frame.contentDocument.createElement("script");
        script.onload = done;
        script.src = url;
        frame.contentDocument.body.appendChild(script);
      });
    }

    postMessage(data) {
      this.ready.then(() => this.room.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
