/* Search without a server: a browser starts no Worker from a file, so here one lives in a hidden frame instead.
   Only the theme's search uses it, and only on file: pages; elsewhere the browser's own Worker stays. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      this.room = new Promise((ready) => {
        frame.onload = () => {
          frame.onload = null;
          const room = frame.contentWindow;
          room.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          const script = room.document.createElement("script");
          script.onload = () => ready(room);
          script.src = url;
          room.document.body.appendChild(script);
        };
      });
      document.body.appendChild(frame);
    }

    postMessage(data) {
      this.room.then((room) => room.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
